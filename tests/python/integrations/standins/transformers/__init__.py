"""A stand-in for the little of transformers that a callback meets: its base class, and how a trainer calls it."""


class TrainerCallback:
    def on_log(self, args, state, control, **kwargs):
        pass


class CallbackHandler:
    def __init__(self, callbacks):
        self.callbacks = list(callbacks)

    def on_log(self, args, state, control, logs):
        for callback in self.callbacks:
            callback.on_log(args, state, control, logs=logs)


class State:
    def __init__(self):
        self.log_history, self.global_step = [], 0


class Trainer:
    """Runs compute_loss over batches and logs after each; reporters come before the caller's own callbacks."""

    def __init__(self, model, batches, callbacks=()):
        self.model, self.batches, self.state = model, batches, State()
        self.callback_handler = CallbackHandler(callbacks)

    def add_callback(self, callback):
        self.callback_handler.callbacks.append(callback)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        return 0.25

    def log(self, logs, start_time=None):
        self.state.log_history.append({**logs, "step": self.state.global_step})
        self.callback_handler.on_log(None, self.state, None, logs)

    def train(self):
        for inputs in self.batches:
            loss = self.compute_loss(self.model, inputs, num_items_in_batch=1)
            self.state.global_step += 1
            self.log({"loss": loss, "reward": 1.0})
        self.log({"train_runtime": 1.0})
