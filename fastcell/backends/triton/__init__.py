r"""The Triton engine: a Program as readable kernel source for a GPU.

    Program -- plan --> Plan -- resident --> source -- cache --> module -- engine --> launched
                          \-- products: what torch computes before and after the loop --/

`expression`, `names`, `body` and `module` are what the source is written with, `functions` what it
calls. It needs triton, which torch for CUDA brings along; nothing here is imported without a GPU.
"""
