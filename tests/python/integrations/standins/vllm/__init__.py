"""A stand-in for vLLM's public names that the integration uses: SamplingParams, and the plugins of vllm.general_plugins."""


class SamplingParams:
    def __init__(self, **options):
        self.options = options
        self.__dict__.update(options)
