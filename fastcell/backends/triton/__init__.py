r"""The Triton engine: a Program as readable kernel source for a GPU.

    Program -- plan --> Plan -- resident, streamed --> source -- cache --> module -- launch --> run
                         \-- products: what torch computes before and after the loop

`cost` chooses the strategy, `ahead` compiles without a device, and `engine` puts it all together.
Source is written by `expression`, `names`, `places`, `body` and `module`; `functions` is what it
calls. It needs triton, which torch for CUDA brings along; nothing here is imported without a GPU.
"""
