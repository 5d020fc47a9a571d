"""Unit 05: references against PyTorch's own layers in float64, both ways; the grammar's entropy; its pictures."""

import math
import random
import re

import matplotlib.pyplot as plt
import pytest
import torch
import torch.nn.functional as F
from conftest import ROOT
from torch import nn

from helpers import check, plots
from helpers.film import LIMIT
from helpers.sections import heading
from helpers.transformer_lm import ablations, grammar, layers, masked_lm, positions, pytorch_weights, sampling, training
from helpers.transformer_lm.checks.decoder_lm import OutOfTraining, lm, own_head, tied_weight
from helpers.transformer_lm.plots import heads, model_map
from helpers.transformer_lm.plots import training as training_plots
from helpers.transformer_lm.story_teller import story_teller
from helpers.transformer_lm.transformer import GPT2_SMALL, Block, Config, DecoderLM, lm_parameters

torch.manual_seed(0)
plt.switch_backend("Agg")


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def same_values_and_gradients(ours, theirs, *inputs):
    """Both functions on the same inputs: outputs and the gradients of a random weighted sum of them."""
    results = []
    for function in (ours, theirs):
        leaves = [x.clone().requires_grad_() for x in inputs]
        out = function(*leaves)
        weighting = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view(out.shape)
        results.append((out, *torch.autograd.grad((out * weighting).sum(), leaves)))
    torch.testing.assert_close(results[0], results[1])


# ---------------------------------------------------------------------------------------------------------- positions


def test_binary_positions_are_the_digits():
    table = positions.binary_positions(20, 6)
    assert (table @ 2.0 ** torch.arange(6)).tolist() == list(range(20))


@pytest.mark.parametrize("k", [-4, 0, 1, 7])
def test_a_shift_is_a_rotation(k):
    table, m = positions.sinusoidal_positions(30, 8).double(), positions.shift_rotation(k, 8).double()
    torch.testing.assert_close(table[10:20] @ m, table[10 + k : 20 + k], atol=1e-5, rtol=0)
    torch.testing.assert_close(m @ m.T, torch.eye(8, dtype=torch.float64), atol=1e-6, rtol=0)


# ------------------------------------------------------------------------------------------------------------- layers


def as_a_function(module: nn.Module):
    """The module with its parameters, in their order, as further inputs."""
    names = [name for name, _ in module.named_parameters()]
    return lambda x, *weights: torch.func.functional_call(module, dict(zip(names, weights, strict=True)), (x,))


def test_layer_norm_is_pytorchs():
    theirs = as_a_function(nn.LayerNorm(6).double())
    same_values_and_gradients(layers.layer_norm, theirs, 3 + randn(2, 5, 6), randn(6), randn(6))


def test_rms_norm_is_pytorchs():
    theirs = as_a_function(nn.RMSNorm(6, eps=1e-5).double())
    same_values_and_gradients(layers.rms_norm, theirs, 3 + randn(2, 5, 6), randn(6))


def test_feed_forward_is_pytorchs():
    theirs = lambda x, w_1, b_1, w_2, b_2: F.linear(F.relu(F.linear(x, w_1.T, b_1)), w_2.T, b_2)
    same_values_and_gradients(layers.feed_forward, theirs, randn(2, 3, 4), randn(4, 7), randn(7), randn(7, 4), randn(4))


def test_swiglu_is_its_formula_number_by_number_and_so_are_its_gradients():
    inputs = randn(2, 3), randn(3, 4), randn(3, 4), randn(4, 3)

    def naive(x, w_gate, w_up, w_down):
        """No matrix product, no silu of PyTorch's."""
        dot = lambda a, b: sum(a[i] * b[i] for i in range(len(a)))
        gates = [[dot(row, w_gate[:, j]) for j in range(4)] for row in x]
        inside = [
            [g / (1 + torch.exp(-g)) * dot(row, w_up[:, j]) for j, g in enumerate(own)] for row, own in zip(x, gates)
        ]
        return torch.stack([torch.stack([dot(row, w_down[:, k]) for k in range(3)]) for row in inside])

    same_values_and_gradients(layers.swiglu, naive, *inputs)
    assert torch.autograd.gradcheck(layers.swiglu, [leaf.requires_grad_() for leaf in inputs])


@pytest.mark.parametrize("pre_norm", [True, False])
def test_a_block_is_pytorchs_encoder_layer(pre_norm):
    theirs = nn.TransformerEncoderLayer(12, 3, 48, dropout=0.0, batch_first=True, norm_first=pre_norm).double()
    attend = lambda x: theirs.self_attn(x, x, x, need_weights=False)[0]
    mlp = lambda x: theirs.linear2(F.relu(theirs.linear1(x)))
    ours = lambda x: layers.transformer_block(x, attend, mlp, theirs.norm1, theirs.norm2, pre_norm)
    same_values_and_gradients(ours, lambda x: theirs(x), randn(2, 5, 12))


def test_weights_come_from_pytorchs_layer_and_go_back():
    theirs = nn.TransformerEncoderLayer(12, 3, 48, dropout=0.0, batch_first=True, norm_first=True, activation="gelu")
    theirs.double(), nn.init.normal_(theirs.self_attn.in_proj_bias), nn.init.normal_(theirs.norm1.weight)
    ours = Block(12, 3, 3, bias=True, rotary=False).double()
    ours.load_state_dict(pytorch_weights.from_torch(theirs))
    causal = torch.full((5, 5), -torch.inf, dtype=torch.float64).triu(1)
    same_values_and_gradients(
        lambda x: ours(x, torch.arange(5)[None], causal[None]), lambda x: theirs(x, src_mask=causal), randn(2, 5, 12)
    )
    back = pytorch_weights.to_torch(ours)
    assert back.keys() == theirs.state_dict().keys()
    assert all(torch.equal(back[name], value) for name, value in theirs.state_dict().items())


def test_residual_stream():
    stream = layers.residual(torch.ones(1, 1), [lambda x: 2 * x, lambda x: 2 * x])
    assert stream.flatten().tolist() == [1, 3, 9]


def stream_in_one_tensor(x, layers):
    out = x.new_empty(len(layers) + 1, *x.shape)
    out[0] = x
    for i, layer in enumerate(layers):
        out[i + 1] = out[i] + layer(out[i])
    return out


def block_in_place(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    x = x.clone()
    for layer, norm in ((attention, norm_1), (feed_forward, norm_2)):
        x += layer(norm(x) if pre_norm else x)
        x = x if pre_norm else norm(x)
    return x


@pytest.mark.parametrize(
    ("one", "answer"), [(check.residual, stream_in_one_tensor), (check.transformer_block, block_in_place)]
)
def test_what_a_layer_has_read_is_not_written_to(one, answer):
    score = one(answer, points=1)
    assert score < 1 and "for its way back" in score.message


# -------------------------------------------------------------------------------------------------------------- model


def test_gpt2_small_has_its_published_number_of_parameters():
    with torch.device("meta"):
        model = DecoderLM(GPT2_SMALL)
    counted = sum(parameter.numel() for parameter in model.parameters())
    assert counted == GPT2_SMALL.parameters == lm_parameters(50_257, 768, 12, 1024, True) == 124_439_808


@pytest.mark.parametrize("sizes", [{"bias": True}, {"context": 17}, {"bias": True, "context": 5, "h_kv": 1}])
def test_parameters_of_gpt2s_shape(sizes):
    config = Config(**sizes)
    assert sum(p.numel() for p in DecoderLM(config).parameters()) == config.parameters


def test_a_model_with_learned_positions_knows_the_order():
    model, tokens = DecoderLM(Config(context=9, layers=1)), torch.arange(6)[None]
    assert model(tokens).shape == (1, 6, 50)
    assert not torch.allclose(model(tokens)[0, -1], model(tokens[:, [1, 0, 2, 3, 4, 5]])[0, -1], atol=1e-3)


# ----------------------------------------------------------------------------------------------------------- training


def test_loss_is_pytorchs_cross_entropy():
    logits, tokens, lengths = randn(3, 6, 9), torch.randint(9, (3, 6)), torch.tensor([6, 2, 4])
    targets = tokens.masked_fill(torch.arange(6) >= lengths[:, None], -100)[:, 1:]
    theirs = lambda logits: F.cross_entropy(logits[:, :-1].flatten(0, 1), targets.flatten())
    same_values_and_gradients(lambda logits: training.next_token_loss(logits, tokens, lengths), theirs, logits)


def test_learning_rate_rises_and_falls():
    rates = [training.learning_rate(step, 24, 4, 8.0, 2.0) for step in range(24)]
    assert rates[:5] == [2, 4, 6, 8, 8] and rates[14] == pytest.approx(5)
    assert all(a > b for a, b in zip(rates[4:], rates[5:])) and rates[-1] > 2


def test_training_counts_its_steps_and_learns():
    losses = training.train(training.stories(8, 0), ablations.rates(40, 4), model=ablations.story_model(0))
    assert len(losses) == 40 and sum(losses[-5:]) / 5 < 0.6 * losses[0]


def test_vectors_do_not_decay():
    decaying, sparing = training.parameter_groups(DecoderLM(Config(bias=True)), 0.1)
    assert sparing["weight_decay"] == 0 and all(p.dim() == 1 for p in sparing["params"])
    assert decaying["weight_decay"] == 0.1 and all(p.dim() == 2 for p in decaying["params"])


# ------------------------------------------------------------------------------------------------------------ grammar


def test_entropy_is_the_mean_surprise_of_a_long_sample():
    chance, nats, tokens, squares = random.Random(3), 0.0, 0, 0.0
    for _ in range(5_000):
        surprises = grammar.surprises(grammar.story(chance))
        nats, tokens = nats + sum(surprises), tokens + len(surprises)
        squares += (sum(surprises) - grammar.entropy_per_token() * len(surprises)) ** 2
    error = math.sqrt(squares) / tokens  # one standard error of the ratio
    assert abs(nats / tokens - grammar.entropy_per_token()) < 5 * error and error < 0.002


def test_floor_of_each_kind_of_place_is_its_mean_surprise_in_a_long_sample():
    chance, count, found = random.Random(4), 4_000, {kind: [] for kind in grammar.expected_by_kind()}
    for _ in range(count):
        words = grammar.story(chance)
        own = {kind: [0.0, 0] for kind in found}
        for kind, nats in zip(grammar.kinds(words), grammar.surprises(words), strict=True):
            own[kind] = [own[kind][0] + nats, own[kind][1] + 1]
        for kind, sums in own.items():
            found[kind].append(sums)
    for kind, expected in grammar.expected_by_kind().items():
        sample = torch.tensor(found[kind], dtype=torch.float64)  # (count, 2): nats and places of a story
        error = sample.std(0) / math.sqrt(count)
        assert ((sample.mean(0) - torch.tensor(expected)).abs() <= 5 * error + 1e-9).all(), kind


def test_the_kind_of_a_place_does_not_look_at_its_word():
    words = "Ada Stone meets Leo Hill . Leo Hill sees two dogs ( old [ grey ] ) that hop".split()
    kinds = dict(zip(enumerate(words), grammar.kinds(words)))
    assert [word for (_, word), kind in kinds.items() if kind == "a bracket"] == ["[", "]", ")"]
    assert [place for (place, _), kind in kinds.items() if kind == "a name again"] == [7]
    assert kinds[18, "hop"] == "a verb"
    for place, word in enumerate(words):
        assert grammar.kinds([*words[:place], "fox"])[place] == kinds[place, word]


def test_held_out_losses_are_those_of_the_batches_and_a_model_that_knows_nothing_has_the_same_everywhere():
    model = ablations.story_model(0)
    measured = training.held_out_by_kind(model, count=100)
    inputs, targets = next(training.stories(100, 10_000))
    with torch.no_grad():
        expected = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()).item()
    nats, tokens = map(sum, zip(*measured.values()))
    assert nats / tokens == pytest.approx(expected, rel=1e-4) and round(tokens * 100) == int((targets != -100).sum())
    nn.init.zeros_(model.embedding.weight)
    measured = training.held_out_by_kind(model, count=100)
    assert all(nats / tokens == pytest.approx(math.log(57), rel=1e-5) for nats, tokens in measured.values())
    table = training.losses_by_kind({"whole": measured})
    assert table.count("4.043") == 6 and "0.495" in table


def test_what_the_grammar_says_is_checked_word_by_word():
    words = grammar.story(random.Random(1))
    assert grammar.is_story(words) and not grammar.is_story(words[:-1]) and not grammar.is_story([*words, "."])
    assert not grammar.is_story([*words[:-1], "dog"]) and not grammar.is_story([])
    assert len(set(grammar.VOCABULARY)) == len(grammar.VOCABULARY) == 57


def test_batches_are_shifted_and_padded():
    inputs, targets = grammar.batch(5, random.Random(0))
    assert (inputs[:, 0] == grammar.END).all()
    for row, target in zip(inputs, targets):
        n = int((target != grammar.IGNORED).sum())
        assert torch.equal(row[1:n], target[: n - 1]) and target[n - 1] == grammar.END
        assert grammar.is_story(grammar.words(row[1:].tolist()))


@pytest.mark.parametrize("without", ["", *ablations.WITHOUT])
def test_models_for_the_stories_run_whole_and_in_part(without):
    inputs, targets = grammar.batch(3, random.Random(0))
    assert ablations.story_model(0, without)(inputs).shape == (*targets.shape, 57)


@pytest.mark.parametrize(
    ("model", "right"),
    [
        (lm(), True),
        (own_head(tied=tied_weight), True),
        (own_head(), False),
        (lm(scaled=lambda model, x: x), False),
        (OutOfTraining, False),
        (lambda *_: unsolved(), False),
    ],
)
def test_a_students_model_is_trained_if_it_says_what_the_courses_says(model, right):
    course, (tokens, _) = ablations.story_model(2), next(training.stories(2, 2))
    assert (ablations.own_model(model, positions.rotary_embedding, course, tokens) is not None) is right


def test_a_students_schedule_is_used_if_it_is_right():
    assert ablations.own_rates(training.learning_rate, 60) == ablations.rates(60)
    assert ablations.own_rates(lambda *_: 0.1, 60) is ablations.own_rates(unsolved, 60) is None


def test_a_students_model_learns_like_the_courses(monkeypatch, capsys):
    for kept in ("_TRAINED", "_CURVES", "_MEASURED"):
        monkeypatch.setattr(training_plots, kept, {})
    own = positions.rotary_embedding, training.learning_rate
    plots.train_on_stories(training.train, lm(), *own, steps=3)
    assert "Trained with your own train, DecoderLM, learning_rate.\n" in capsys.readouterr().out
    losses = training_plots._CURVES["whole"]
    plots.train_on_stories(training.train, OutOfTraining, *own, steps=3)
    assert "this device: DecoderLM (5.11)." in capsys.readouterr().out
    assert training_plots._CURVES["whole"] == pytest.approx(losses, rel=1e-4)


# ------------------------------------------------------------------------------------------------------------ writing


def test_cuts_by_hand():
    logits = torch.tensor([0.5, 0.3, 0.2]).log()
    for settings, expected in (
        ({"top_k": 2}, [0.625, 0.375, 0]),
        ({"top_p": 0.6}, [0.625, 0.375, 0]),
        ({"top_p": 0.4}, [1, 0, 0]),
        ({"temperature": 0}, [1, 0, 0]),
        ({}, [0.5, 0.3, 0.2]),
    ):
        torch.testing.assert_close(
            sampling.next_token_probabilities(logits, **settings), torch.tensor(expected).float()
        )


def test_a_model_writes_within_its_context():
    read = []
    model = lambda tokens: (read.append(tokens.shape[1]), F.one_hot((tokens + 1) % 7, 7).float())[1]
    written = sampling.generate(model, torch.tensor([[3, 4]]), 5, 4, lambda logits: logits.argmax(-1))
    assert written.tolist() == [[5, 6, 0, 1, 2]] and read == [2, 3, 4, 4, 4]


def test_masked_tokens_by_hand():
    tokens, other = torch.tensor([[7, 8, 9, 5]]), torch.tensor([[20, 21, 22, 23]])
    chance = torch.tensor([[0.5, 0.1, 0.13, 0.14]])
    inputs, targets = masked_lm.masked_lm_objective(tokens, torch.ones(1, 4).bool(), chance, other, 1)
    assert inputs.tolist() == [[7, 1, 22, 5]] and targets.tolist() == [[-100, 8, 9, 5]]


# ----------------------------------------------------------------------------------------------------------- pictures


def unsolved(*_, **__):
    raise NotImplementedError


def test_pictures_draw(monkeypatch, capsys):
    monkeypatch.setattr(plt, "show", lambda: plt.gcf().canvas.draw())
    for kept in ("_TRAINED", "_CURVES", "_MEASURED"):
        monkeypatch.setattr(training_plots, kept, {})  # whatever this process has trained before
    plots.position_maps(positions.binary_positions, positions.sinusoidal_positions)
    plots.clocks(positions.sinusoidal_positions)
    plots.rotary_scores(positions.rotary_embedding)
    plots.two_blocks()
    plots.model_map()
    plots.norms_through_depth(layers.transformer_block, depth=3)
    plots.learning_rates(training.learning_rate)
    plots.story_examples()
    plots.trained_heads()
    assert "Train the model first" in capsys.readouterr().out
    plots.train_on_stories(training.train, steps=2, without="attention")
    plots.trained_heads()
    assert "Train the model first" in capsys.readouterr().out  # an ablation is not kept
    plots.train_on_stories(training.train, steps=3)
    plots.story_samples(sampling.next_token_probabilities, sampling.generate, (0.0,))
    plots.trained_heads()
    assert "trained, T = 0" in capsys.readouterr().out
    plt.close("all")


@pytest.mark.parametrize(
    ("picture", "functions"),
    [
        ("position_maps", 2),
        ("clocks", 1),
        ("rotary_scores", 1),
        ("norms_through_depth", 1),
        ("learning_rates", 1),
        ("train_on_stories", 1),
    ],
)
def test_pictures_wait_for_their_exercise(picture, functions, capsys):
    getattr(plots, picture)(*[unsolved] * functions)
    assert "This picture needs your answer to exercise" in capsys.readouterr().out


def test_a_word_asks_and_its_arcs_are_as_thick_as_its_weights():
    weights = torch.tensor([[[1.0, 0, 0], [0.6, 0.4, 0], [0.05, 0.85, 0.1]], torch.eye(3).tolist()])
    row = heads._Row(weights, ["a", "b", "c"], ["back", "itself"], [{2}, set()])
    assert row.ask(2) == "“c” looks most at itself (head B: 1.00), “b” 1 back (head A: 0.85)."
    drawn = row.svg()
    assert re.findall('stroke-width="([0-9.]+)" d', drawn) == ["6.8", "8.0"], "0.05 has no arc, 0.1 is not above it"
    assert re.findall("(.): .*?<", drawn) == ["A", "B"] and 'font-weight="bold" stroke' in drawn.split("A: ")[0]
    assert re.findall('font-weight="bold">(.)<', drawn) == ["b", "c"]


def test_the_film_of_heads_opens_where_a_head_looks_far_back_and_every_word_asks_once():
    words = heads.TOLD.split()
    model, _ = story_teller()
    weights = torch.stack([grid[0] for grid in heads.attention_maps(model, words)])
    html = heads._film(weights, ["<end>", *words], ["?"] * 4, list(heads.looks(words).values()))
    assert len(html) < LIMIT and html.count(" looks most at ") == len(words) + 2  # one is the caption that stands there
    ideal = torch.zeros(1, 50, 50)
    ideal[0, 9, 8] = ideal[0, 7, 1] = 1
    assert heads._farthest(ideal, [[(9, 8), (7, 1)]]) == 7


def test_the_map_of_the_model_names_the_sections_and_what_may_come_next(monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: None)
    plots.model_map()
    words = " ".join(text.get_text() for text in plt.gca().texts)
    plt.close()
    for exercise in (
        "transformer_block",
        "feed_forward",
        "DecoderLM",
        "residual",
        "next_token_loss",
        "train",
        "generate",
    ):
        assert heading(exercise).split()[0] in words
    stories = (grammar.story(random.Random(seed)) for seed in range(2_000))
    seen = {story[3] for story in stories if tuple(story[:3]) == model_map.READ}
    assert seen == set(model_map.NEXT)


def test_attention_maps_are_those_of_the_model():
    model, words = ablations.story_model(0), grammar.story(random.Random(0))
    maps = heads.attention_maps(model, words)
    assert len(maps) == 4 and maps[0].shape == (4, len(words) + 1, len(words) + 1)
    torch.testing.assert_close(maps[3].sum(-1), torch.ones(4, len(words) + 1))


def test_heads_are_scored_where_the_answer_stands():
    words = ["<end>", *heads.TOLD.split()]
    *found, step = heads.looks(words[1:]).values()
    new, again, number = ([(words[row], words[column]) for row, column in pairs] for pairs in found)
    assert new == [("Stone", "Ada"), ("Hill", "Leo")] and number == [("that", "two")]
    assert again == [("Leo", "Hill"), ("Ada", "Stone"), ("Leo", "Hill")]
    assert len(step) == grammar.DANCE and all(words[row + 1] == words[column] for row, column in step)
    assert grammar.is_story(words[1:])
    scores = heads.head_scores(ablations.story_model(0), count=2)
    assert all(found.shape == (4, 4) and 0 <= found.min() and found.max() <= 1 for found in scores.values())


def test_the_story_at_the_top_of_the_unit_is_one_that_the_shipped_model_writes():
    model, words = story_teller()
    source = (ROOT / "solutions" / "05_transformer_lm" / "05_transformer_lm.py").read_text(encoding="utf-8")
    told = " ".join(line.removeprefix("# > ") for line in source.split("\n") if line.startswith("# > "))
    generator, tokens = torch.Generator().manual_seed(3), [0, *map(words.index, "Ada Stone meets Tom Field".split())]
    while len(tokens) < 2 or tokens[-1]:
        shares = (model(torch.tensor([tokens]))[0, -1] / 0.8).softmax(-1)
        tokens.append(int(torch.multinomial(shares, 1, generator=generator)))
    assert " ".join(words[token] for token in tokens[1:-1]) == told
