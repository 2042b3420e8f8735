"""The shapes of the course's models by name, for building them and for predictions."""

# GPT-2's four published sizes (Radford et al. 2019), and one that trains on a laptop: 0.80M
# parameters, plus 128 for each entry of its vocabulary.
GPT = {
    "nano": {"layers": 4, "heads": 4, "width": 128, "context": 64},
    "gpt2": {"layers": 12, "heads": 12, "width": 768, "context": 1024},
    "gpt2-medium": {"layers": 24, "heads": 16, "width": 1024, "context": 1024},
    "gpt2-large": {"layers": 36, "heads": 20, "width": 1280, "context": 1024},
    "gpt2-xl": {"layers": 48, "heads": 25, "width": 1600, "context": 1024},
}
GPT2_VOCABULARY = 50_257

# Channels of the first stage; He et al. 2016 has 64.
RESNET = {"resnet18": 64, "resnet18-narrow": 16}
