"""Parameters of the course's models, tensor by tensor, without building them.

Plain functions on numbers, no imports: they also run in the browser. Symbols: h width, L layers,
V vocabulary.
"""


def count(shapes):
    """Elements of all `shapes`, a list of `(name, sizes)`."""
    total = 0
    for _, sizes in shapes:
        total += elements(sizes)
    return total


def elements(sizes):
    """Elements of one tensor of these sizes."""
    product = 1
    for size in sizes:
        product *= size
    return product


def gpt_block(width, name="h.0", keys=None):
    """Parameters of one block, 12h² + 13h in all, as `(name, sizes)` in the model's order.

    `keys` is the width of all keys, and of all values: less than h (the default) where several
    heads share them.
    """
    h = width
    rows = h + 2 * (keys or h)
    weights = [
        (".ln_1", (h,)), (".attn.c_attn", (rows, h)), (".attn.c_proj", (h, h)),
        (".ln_2", (h,)), (".mlp.c_fc", (4 * h, h)), (".mlp.c_proj", (h, 4 * h)),
    ]  # fmt: skip
    found: list = []
    for layer, sizes in weights:
        found += [(name + layer + ".weight", sizes), (name + layer + ".bias", sizes[:1])]
    return found


def gpt(layers, width, context, vocab_size):
    """Parameters of a GPT whose output layer is its token embedding (tied, so counted once).

    Ψ = L(12h² + 13h) + (V + context)h + 2h.
    """
    h = width
    shapes: list = [("wte.weight", (vocab_size, h)), ("wpe.weight", (context, h))]
    for layer in range(layers):
        shapes += gpt_block(h, "h." + str(layer))
    shapes += [("ln_f.weight", (h,)), ("ln_f.bias", (h,))]
    return shapes


def resnet_convolutions(width):
    """Convolutions of ResNet-18 on 32×32: `(name, inputs, outputs, kernel, side of the output)`."""
    found = [("stem.0", 3, width, 3, 32)]
    inputs, side = width, 32
    for stage in range(4):
        outputs = width * 2**stage
        for block in range(2):
            name = "blocks." + str(2 * stage + block)
            halves = stage > 0 and block == 0
            side = side // 2 if halves else side
            found.append((name + ".conv1", inputs, outputs, 3, side))
            found.append((name + ".conv2", outputs, outputs, 3, side))
            if halves:
                found.append((name + ".shortcut.0", inputs, outputs, 1, side))
            inputs = outputs
    return found


def resnet(width, classes=10):
    """Parameters of ResNet-18: each convolution and the gain and offset of its norm, and a head."""
    shapes: list = []
    for name, inputs, outputs, kernel, _ in resnet_convolutions(width):
        norm = name.replace("conv", "norm").replace("stem.0", "stem.1").replace("t.0", "t.1")
        shapes.append((name + ".weight", (outputs, inputs, kernel, kernel)))
        shapes += [(norm + ".weight", (outputs,)), (norm + ".bias", (outputs,))]
    shapes += [("head.weight", (classes, 8 * width)), ("head.bias", (classes,))]
    return shapes
