"""The references of unit 06 against PyTorch's own layers in float64, both ways; what decoding reads is counted."""

import itertools
import random

import matplotlib.pyplot as plt
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from helpers import check, plots
from helpers.board import Board
from helpers.encoder_decoder import alignment, cost, decoding, layers, tasks, training
from helpers.encoder_decoder.checks import teacher_forcing as forcing_check
from helpers.encoder_decoder.checks import train_reversal as training_check
from helpers.encoder_decoder.checks import trainings
from helpers.encoder_decoder.model import END, PAD, START, EncoderDecoder
from helpers.encoder_decoder.plots import alignment as alignment_pictures
from helpers.encoder_decoder.plots import beam as beam_pictures
from helpers.film import LIMIT

torch.manual_seed(0)


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def tokens(b, n, words=11):
    return torch.randint(3, words, (b, n))


def padded(b, m):
    """Which of m tokens are real, in each of b sequences."""
    return torch.arange(m) < torch.tensor([m, *range(1, b)])[:, None]


def same_gradients(ours: nn.Module, theirs: nn.Module, mine, expected):
    """Outputs, and the gradients of a fixed sum by every parameter, under our names."""
    torch.testing.assert_close(mine, expected)
    _back(ours, mine), _back(theirs, expected)
    _same_by_name(ours, theirs)


def _back(model: nn.Module, out):
    model.zero_grad()
    (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view(out.shape)).sum().backward()


def _same_by_name(ours: nn.Module, theirs: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
    for parameter in theirs.parameters():
        parameter.data = parameter.grad
    for name, wanted in layers.from_pytorch(theirs).items():
        torch.testing.assert_close(ours.get_parameter(name).grad, wanted)


@pytest.mark.parametrize("masked", [False, True])
def test_encoder_layer_is_pytorchs_forward_and_backward(masked):
    theirs = nn.TransformerEncoderLayer(12, 3, 20, dropout=0.0, batch_first=True, dtype=torch.float64)
    ours = layers.EncoderLayer(12, 3, 20, dropout=0.0).double()
    ours.load_state_dict(layers.from_pytorch(theirs))
    x, real = randn(3, 5, 12), padded(3, 5)
    expected = theirs(x, src_key_padding_mask=~real if masked else None)
    same_gradients(ours, theirs, ours(x, real[:, None] if masked else None), expected)


@pytest.mark.parametrize("masked", [False, True])
def test_decoder_layer_is_pytorchs_forward_and_backward(masked):
    theirs = nn.TransformerDecoderLayer(12, 3, 20, dropout=0.0, batch_first=True, dtype=torch.float64)
    ours = layers.DecoderLayer(12, 3, 20, dropout=0.0).double()
    ours.load_state_dict(layers.from_pytorch(theirs))
    x, memory, real, mask = randn(3, 4, 12), randn(3, 7, 12), padded(3, 7), layers.causal_mask(4)
    expected = theirs(x, memory, tgt_mask=~mask if masked else None, memory_key_padding_mask=~real if masked else None)
    same_gradients(ours, theirs, ours(x, memory, *((mask, real[:, None]) if masked else ())), expected)


def nn_transformer(d: int, h: int, d_ff: int, count: int) -> nn.Transformer:
    """PyTorch's own, in float64, without the norm after each stack (the paper has none), each layer with own
    weights."""
    sizes = {
        "d_model": d,
        "nhead": h,
        "dim_feedforward": d_ff,
        "dropout": 0.0,
        "batch_first": True,
        "dtype": torch.float64,
    }
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(**sizes), count, enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**sizes), count)
    theirs = nn.Transformer(**sizes, custom_encoder=encoder, custom_decoder=decoder)
    for parameter in theirs.parameters():  # PyTorch's stacks start as copies of one layer
        nn.init.normal_(parameter, std=0.5)
    return theirs


def test_model_is_nn_transformer_between_embedding_and_head_forward_and_backward():
    theirs = nn_transformer(8, 2, 12, count=3)
    ours = EncoderDecoder(11, 9, d=8, h=2, d_ff=12, layers=3, dropout=0.0).double()
    pairs = [*zip(ours.encoder, theirs.encoder.layers), *zip(ours.decoder, theirs.decoder.layers)]
    for mine, other in pairs:
        mine.load_state_dict(layers.from_pytorch(other))
    source, target, real = tokens(3, 6), tokens(3, 5, 9), padded(3, 6)
    source = source.masked_fill(~real, PAD)

    def logits_of_theirs():
        x, y = ours.embed(source, ours.source_embedding), ours.embed(target, ours.target_embedding)
        hidden = {"src_key_padding_mask": ~real, "memory_key_padding_mask": ~real}
        return ours.head(theirs(x, y, tgt_mask=~layers.causal_mask(5), **hidden))

    around = [*ours.source_embedding.parameters(), *ours.target_embedding.parameters(), *ours.head.parameters()]
    _back(ours, expected := logits_of_theirs())  # fills the gradients of `theirs`, and of what is around it
    wanted = [parameter.grad.clone() for parameter in around]
    _back(ours, mine := ours(source, target))
    torch.testing.assert_close(mine, expected)
    torch.testing.assert_close([parameter.grad for parameter in around], wanted)
    for mine, other in pairs:
        _same_by_name(mine, other)


def test_layers_share_no_parameter():
    model = EncoderDecoder(11, 9, d=8, h=2, d_ff=12, layers=3)
    assert len({p.data_ptr() for p in model.parameters()}) == len(list(model.state_dict()))
    assert not torch.equal(model.decoder[0].linear1.weight, model.decoder[1].linear1.weight)


def test_padding_of_source_and_target_changes_nothing():
    model, source, target = EncoderDecoder(11, 11, 8, 2, 12, 2).double().eval(), tokens(1, 4), tokens(1, 3)
    longer = [torch.cat([t, torch.zeros(1, 3, dtype=torch.long)], dim=1) for t in (source, target)]
    torch.testing.assert_close(model(*longer)[:, :3], model(source, target))


# ------------------------------------------------------------------------------------------------------------- writing


class Counted:
    """Counts the calls of a module, and the tokens (batch times length) that go through it."""

    def __init__(self, module):
        self.calls = self.tokens = 0
        module.register_forward_pre_hook(self.see)

    def see(self, _, inputs):
        self.calls, self.tokens = self.calls + 1, self.tokens + inputs[0].shape[0] * inputs[0].shape[1]


def test_greedy_with_a_cache_is_greedy_without_and_nothing_is_computed_twice():
    model, source = EncoderDecoder(11, 11, 8, 2, 12, 2).double().eval(), tokens(3, 6)
    source[1, 4:] = PAD
    with torch.no_grad():
        model.head.bias[END] = -1e9  # it never ends by itself
        written, real = torch.full((3, 1), START), source != PAD
        for _ in range(7):
            following = model.decode(written, model.encode(source, real), real)[:, -1:].argmax(-1)
            written = torch.cat([written, following], dim=1)
    embedding = Counted(model.source_embedding)
    encoder = [Counted(layer.self_attn.w_q) for layer in model.encoder]
    own = [Counted(layer.self_attn.w_q) for layer in model.decoder]
    memory = [Counted(layer.cross_attn.w_k) for layer in model.decoder]
    found = decoding.greedy_decode(*decoding.steps_of(model), source, 7)
    assert [part.tokens for part in memory] == [3 * 6] * 2  # each source token once
    assert torch.equal(found, written[:, 1:])
    assert embedding.calls == 1 and [(part.calls, part.tokens) for part in encoder] == [(1, 3 * 6)] * 2
    assert [part.tokens for part in own] == [3 * 7] * 2  # each written token once


def test_next_log_probs_are_those_of_the_model_and_each_call_reads_one_token():
    model, source = EncoderDecoder(11, 11, 8, 2, 12, 2).double().eval(), tokens(1, 5)
    prefixes = [
        torch.tensor([[START]]),
        torch.tensor([[START, 4], [START, 7]]),
        torch.tensor([[START, 7, 5], [START, 4, 4]]),
    ]
    with torch.no_grad():
        expected = [model(source.expand(len(p), -1), p)[:, -1].log_softmax(-1) for p in prefixes]
    asked, encoder = Counted(model.decoder[0].self_attn.w_q), Counted(model.encoder[0].self_attn.w_q)
    ask = decoding.next_log_probs_of(model, source[0])
    for prefix, wanted in zip(prefixes, expected):
        torch.testing.assert_close(ask(prefix), wanted)
    assert asked.tokens == 1 + 2 + 2 and (encoder.calls, encoder.tokens) == (1, 5)  # the encoder once for all beams


def table(seed, v=4, longest=4):
    """Log-probabilities after every prefix, drawn."""
    generator = torch.Generator().manual_seed(seed)
    drawn = {}

    def after(prefixes):
        for row in prefixes.tolist():
            drawn.setdefault(tuple(row), torch.randn(v, generator=generator, dtype=torch.float64).log_softmax(0))
        return torch.stack([drawn[tuple(row)] for row in prefixes.tolist()])

    return after


@pytest.mark.parametrize("seed", range(20))
def test_a_beam_of_one_is_greedy_and_a_wide_one_is_exhaustive_where_nothing_ends(seed):
    after, words = table(seed), (0, 1, 3)

    def endless(prefixes):
        log_p = after(prefixes).clone()
        log_p[:, END] = -1e9
        return log_p

    greedy = [START]
    for _ in range(4):
        greedy.append(int(endless(torch.tensor([greedy]))[0].argmax()))
    assert decoding.beam_search(endless, 1, 4)[0] == greedy[1:]

    def total(sentence):
        whole = [START, *sentence]
        return sum(float(endless(torch.tensor([whole[: i + 1]]))[0, token]) for i, token in enumerate(sentence))

    best = max(itertools.product(words, repeat=4), key=total)
    found, score = decoding.beam_search(endless, 200, 4)
    assert tuple(found) == best and score == pytest.approx(total(best) / 1.5**0.6)


def test_length_penalty_is_wus():
    assert decoding.length_penalty(1, 0.6) == 1 and decoding.length_penalty(7, 1.0) == 2


# ----------------------------------------------------------------------------------------------- training and its tasks


def test_exact_match_counts_whole_strings_up_to_end():
    target = torch.tensor([[5, 6, 0], [7, 0, 0], [8, 9, 4]])
    written = torch.tensor([[5, 6, END, 9], [7, 9, END, 0], [8, 9, 4, END]])
    assert training.exact_match(written, target) == pytest.approx(2 / 3)
    assert training.exact_match(torch.tensor([[5, 6, 6]]), target[:1]) == 0


def test_reversed_strings():
    assert tasks.reversed_strings(torch.tensor([[5, 6, 7, 0], [4, 0, 0, 0]])).tolist() == [[7, 6, 5, 0], [4, 0, 0, 0]]


def test_translations_keep_their_words():
    chance = random.Random(0)
    for pair in (tasks.pair(chance) for _ in range(300)):
        assert set(pair.english) <= set(tasks.ENGLISH) and set(pair.esperanto) <= set(tasks.ESPERANTO)
        assert len(pair.english) <= tasks.LONGEST and len(pair.sources) == len(pair.esperanto)
        for word, places in zip(pair.esperanto, pair.sources):
            english = pair.english[places[0]]
            assert (word == "la") == (english == "the")
            assert word.endswith("n") <= (places[0] > pair.sources[-1][0])  # the object stands behind the verb


def test_a_known_translation():
    chance = random.Random(0)
    found = {pair.english: pair.esperanto for pair in (tasks.pair(chance) for _ in range(20000))}
    known = {
        english: found[english] for english in found if english[:3] == ("the", "old", "cats") and english[3] == "saw"
    }
    assert known and all(
        esperanto[:3] == ("la", "katoj", "maljunaj") and esperanto[-1] == "vidis" for esperanto in known.values()
    )


@pytest.mark.parametrize(("n", "m", "d"), [(5, 7, 8), (3, 3, 4), (9, 2, 12)])
def test_costs_are_what_torch_counts(n, m, d):
    encoder, decoder = layers.EncoderLayer(d, 2, 4 * d), layers.DecoderLayer(d, 2, 4 * d)
    with FlopCounterMode(display=False) as counter:
        decoder(
            torch.randn(1, n, d),
            encoder(torch.randn(1, m, d), torch.ones(m, m, dtype=torch.bool)),
            layers.causal_mask(n),
        )
    assert sum(map(sum, cost.enc_dec_cost(n, m, d).values())) == counter.get_total_flops()
    alone = [layers.EncoderLayer(d, 2, 4 * d) for _ in range(2)]
    with FlopCounterMode(display=False) as counter:
        alone[1](alone[0](torch.randn(1, n + m, d), layers.causal_mask(n + m)), layers.causal_mask(n + m))
    assert sum(cost.decoder_alone_cost(n, m, d)) == counter.get_total_flops()


def test_alignment_rows_sum_to_one_and_skip_padding():
    model, source = EncoderDecoder(11, 11, 8, 2, 12, 2), tokens(1, 6)[0]
    source[4:] = PAD
    weights = alignment.cross_attention(model, source, torch.tensor([START, 5, 6]))
    assert weights.shape == (2, 2, 3, 6) and not weights[..., 4:].any()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 3))


def test_pytorchs_own_attention_in_disguise_is_found():
    class Disguised(layers.EncoderLayer):
        def forward(self, x, mask=None):
            nn.functional.multi_head_attention_forward(
                *[x.transpose(0, 1)] * 3,
                x.shape[-1],
                1,
                torch.zeros(3 * x.shape[-1], x.shape[-1], dtype=x.dtype),
                None,
                None,
                None,
                False,
                0.0,
                torch.zeros(x.shape[-1], x.shape[-1], dtype=x.dtype),
                None,
            )
            return super().forward(x, mask)

    score = check.EncoderLayer(Disguised, points=3)
    assert score == 0 and score.diagnosis == "forbidden function"


# ------------------------------------------------------- trained with a slip, a model behaves as the check says it does


class LooksAhead(EncoderDecoder):
    def decode(self, target, memory, real):
        x = self.embed(target, self.target_embedding)
        for layer in self.decoder:
            x = layer(x, memory, None, real[:, None])
        return self.head(x)


def unshifted(target):
    labels = training.teacher_forcing(target)[1]
    return labels, labels


def fit(
    sources,
    targets,
    words,
    *,
    force=training.teacher_forcing,
    model=EncoderDecoder,
    batches=None,
    updates=True,
    loud=False,
    clear=True,
    dropout=0.0,
    ignore=PAD,
    anew=False,
):
    torch.manual_seed(1)
    model = model(words, words, d=32, h=2, d_ff=64, layers=1, dropout=dropout)
    if loud:
        for embedding in (model.source_embedding, model.target_embedding):
            nn.init.normal_(embedding.weight)
    optimiser, losses = torch.optim.Adam(model.parameters(), lr=0.01), []
    for step in range(len(sources)) if batches is None else batches:
        inputs, labels = force(targets[step])
        loss = nn.functional.cross_entropy(
            model(sources[step], inputs).flatten(0, 1), labels.flatten(), ignore_index=ignore
        )
        if clear:
            optimiser.zero_grad()
        loss.backward()
        if anew:
            optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
        if updates:
            optimiser.step()
        losses.append(loss.item())
    return model, losses


def halved(sources, targets, words):
    model, losses = fit(sources, targets, words)
    return model, losses[::2]


def measured_afterwards(sources, targets, words):
    model, _ = fit(sources, targets, words)
    forced = [training.teacher_forcing(target) for target in targets]
    with torch.no_grad():
        found = [model(source, inputs).flatten(0, 1) for source, (inputs, _) in zip(sources, forced)]
    losses = [
        nn.functional.cross_entropy(logits, labels.flatten(), ignore_index=PAD)
        for logits, (_, labels) in zip(found, forced)
    ]
    return model, losses


def going_on(sources, targets, words, kept=[]):  # noqa: B006
    model, losses = fit(sources, targets, words)
    kept += losses
    return model, kept


def counted_otherwise(over):
    """Adam takes the same steps whatever the loss is divided by."""

    def fitted(sources, targets, words):
        model, losses = fit(sources, targets, words)
        asked = [(target != PAD).sum().item() + len(target) for target in targets]
        return model, [loss * count / over(target) for loss, count, target in zip(losses, asked, targets)]

    return fitted


TRAININGS = {
    "mean_over_padding": counted_otherwise(lambda target: target.numel() + len(target)),
    "sum_over_positions": counted_otherwise(len),
    "losses_from_before": going_on,
    "as_it_should_be": fit,
    "trained_to_pad": lambda *given: fit(*given, ignore=-100),
    "trained_to_copy": lambda sources, targets, words: fit(sources, sources, words),
    "trained_without_shift": lambda *given: fit(*given, force=unshifted),
    "trained_with_a_look_ahead": lambda *given: fit(*given, model=LooksAhead),
    "trained_two_ahead": lambda *given: fit(*given, force=forcing_check.two_ahead),
    "trained_without_end": lambda *given: fit(*given, force=forcing_check.without_end),
    "measured_afterwards": measured_afterwards,
    "no_steps": lambda *given: fit(*given, updates=False),
    "trained_on_one_batch": lambda *given: fit(*given, batches=[0] * len(given[0])),
    "some_losses": halved,
    "steps_that_lead_nowhere": lambda *given: fit(*given, clear=False),
    "new_adam": lambda *given: fit(*given, anew=True),
    "dropout_left_on": lambda *given: fit(*given, dropout=0.1),
    "loud_embeddings": lambda *given: fit(*given, loud=True),
}


CLAIMED = {wrong.key: wrong.function for wrong in training_check.train_reversal.misconceptions}
CLAIMED["as_it_should_be"] = training_check.behaving()


@pytest.mark.parametrize("name", TRAININGS)
def test_what_a_slip_in_training_leads_to(name):
    data = trainings.splitting()
    told, claimed = (trainings._trained(training, *data) for training in (TRAININGS[name], CLAIMED[name]))
    if name == "trained_with_a_look_ahead":  # what it writes is chance; that it sees what it should not is certain
        assert told[4] == claimed[4] == "the decoder sees later tokens"
    elif name == "sum_over_positions":  # four times a small number
        assert told[6] == claimed[6] == trainings.SUM
    else:
        assert told == claimed


def test_a_model_that_a_second_training_changes_is_told_from_one_that_is_left_alone():
    sources, unseen = trainings.splitting()
    same = EncoderDecoder(11, 11, d=32, h=2, d_ff=64, layers=1, dropout=0.0)
    for model, found in ((lambda *_, **__: same, True), (EncoderDecoder, False)):
        first, _ = fit(*trainings._padded(sources[:1], 1), model=model)
        said = trainings._asked_twice(first, unseen)
        fit(*trainings._padded(sources[:1], 1), model=model)
        kept = trainings._kept(said, trainings._asked_twice(first, unseen))
        assert (kept == trainings.KEPT) is found


def small() -> training.Trained:
    model = EncoderDecoder(len(tasks.ENGLISH), len(tasks.ESPERANTO), 8, 1, 8, 1)
    return training.Trained(model, [2.0, 1.0], [(1, 0.0), (2, 0.5)])


PICTURES = [
    plots.enc_dec_layers,
    lambda: plots.enc_dec_masks(["the", "cat"], ["<start>", "la"]),
    lambda: plots.enc_dec_terms(cost.enc_dec_cost, 8, (4, 16)),
    lambda: plots.training_curves(small()),
    lambda: plots.alignment_maps(small(), "the cat saw a dog"),
    lambda: plots.reversal_learned(training.train_reversal, letters=3, n=2, steps=10),
]


@pytest.mark.parametrize("draw", PICTURES)
def test_pictures_draw(draw, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: None)
    draw()
    assert plt.get_fignums()
    plt.close("all")


def test_pictures_wait_for_their_exercises(capsys):
    def unsolved(*_):
        raise NotImplementedError

    for draw in (plots.beam_of_a_tree, plots.reversal_learned, lambda answer: plots.enc_dec_terms(answer, 8, (4,))):
        draw(unsolved)
    assert capsys.readouterr().out.count("This picture needs your answer") == 3


def of_a_tree(k: int) -> beam_pictures.Tree:
    ask = lambda prefixes: torch.stack([beam_pictures._after(tuple(row)) for row in prefixes.tolist()])
    search = beam_pictures._watched(decoding.beam_search, ask, k, 6, 0.6)
    return beam_pictures.Tree(search, beam_pictures._steps(search), beam_pictures.NAMES, 0.0)


def test_the_steps_of_a_beam_are_those_of_the_search_and_what_ends_keeps_its_place():
    tree = of_a_tree(2)
    for asked, row in zip(tree.search.asked[1:], tree.steps[1:]):
        assert {node.tokens for node in row if node.kept and node.tokens[-1] != END} == asked.keys()
    kept = [[node.place for node in row if node.kept] for row in tree.steps]
    assert kept == [[0], [0, 1], [0, 1], [0, 1], [1]] and tree.steps[3][0].tokens[-1] == END
    assert all(node.place >= 2 for row in tree.steps for node in row if not node.kept)


def test_the_score_that_a_search_returns_is_to_be_found_in_the_picture():
    trees = [of_a_tree(k) for k in (1, 2)]
    board = Board(30, 20)
    for tree in trees:
        board.wipe()
        tree.draw(board, len(tree.steps) - 1, len(tree.steps), scored=True)
        assert f"= {beam_pictures._signed(tree.search.score)}" in board.words
        assert board.words.count(f"= {beam_pictures._signed(tree.search.score)}") == 1
    html = beam_pictures._film([tree.search for tree in trees], beam_pictures.NAMES)
    assert "k = 1 returns “… birdo flugas <end>”, score −1.73. k = 2 returns “birdo kantas <end>”, score −0.76" in (
        html.replace("\\u003c", "<")
    )
    assert len(html) < LIMIT and beam_pictures._signed(-0.001) == "0.00" and beam_pictures._signed(-7.2) == "−7.20"


def test_a_search_that_is_not_right_yet_has_a_picture_too(monkeypatch):
    def too_many(ask, k, longest, alpha):
        ask(torch.tensor([[START]] * k))
        ask(torch.tensor([[START, token] for token in range(3, 5 + k)]))
        ask(torch.tensor([[START, 7, 7]]))
        return [3, 3], torch.tensor(0.5)

    shown = []
    monkeypatch.setattr(beam_pictures, "play", shown.append)
    plots.beam_of_a_tree(too_many)
    assert "score 0.50" in shown[0]


def test_the_sentence_of_a_beam_is_one_in_which_it_finds_another_than_greedy_search(monkeypatch):
    def differs_in_the_third(ask, k, longest, alpha):
        calls.append(k)
        ask(torch.tensor([[START]]))
        return [len(calls) == 6, END], -1.0

    calls, shown = [], []
    monkeypatch.setattr(beam_pictures, "play", shown.append)
    plots.beam_of_a_translation(differs_in_the_third, small(), "the cat saw a dog", k=2)
    assert calls == [1, 2] * 5 and "“the cat … a dog”." in shown[0]


def test_the_film_of_a_translation_says_whose_search_has_written_it():
    def unwritten(*_):
        raise NotImplementedError

    trained, sentence = small(), "the cat saw a dog"
    assert "your" in alignment_pictures._writer(trained, sentence, decoding.greedy_decode).split()
    for search in (unwritten, lambda encode, step, source, longest: source):
        assert "our" in alignment_pictures._writer(trained, sentence, search).split()


def test_the_film_of_an_alignment_says_what_is_read():
    html = alignment_pictures._film(torch.eye(3), ["the", "cats", "saw"], ["la", "katoj", "vidis"])
    assert "For “katoj” the decoder reads “cats” with weight 1.00" in html
    assert not plt.get_fignums()
