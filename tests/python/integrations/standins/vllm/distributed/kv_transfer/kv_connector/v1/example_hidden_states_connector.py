"""A stand-in for vLLM's connector of extract_hidden_states: what it answers when a request has finished."""
import os


class ExampleHiddenStatesConnector:
    def __init__(self, folder):
        self.folder = folder

    def request_finished(self, request, block_ids):
        if not block_ids:
            return False, None  # aborted before it was scheduled
        return True, {"hidden_states_path": os.path.join(self.folder, f"{request.request_id}.safetensors")}

    def request_finished_all_groups(self, request, block_ids):
        return self.request_finished(request, block_ids[0])
