/* What capture.py needs of llama.cpp, behind functions whose arguments are numbers and pointers to them.
 * libllama takes its options as structs by value, whose members change from one version to the next: here the
 * compiler reads them in llama.h of the version that is installed, and Python never does.
 *
 *   cc -O2 -Wall -Wextra -shared -fPIC logits.c -o liblogits.so -lllama -lggml
 */
#include <llama.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct logits_engine {
  struct llama_model* model;
  struct llama_context* context;
  const struct llama_vocab* vocabulary;
  struct llama_batch batch;
  int64_t* rows; /* of the result, for each token of the batch */
};

static void only_errors(enum ggml_log_level level, const char* text, void* unused) {
  (void)unused;
  if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

void logits_close(struct logits_engine* engine) {
  if (engine == NULL) return;
  if (engine->batch.token != NULL) llama_batch_free(engine->batch);
  if (engine->context != NULL) llama_free(engine->context);
  if (engine->model != NULL) llama_model_free(engine->model);
  free(engine->rows);
  free(engine);
}

/* Loads a model. NULL when that fails; llama.cpp says why on standard error. */
struct logits_engine* logits_open(const char* path) {
  llama_log_set(only_errors, NULL);
  ggml_backend_load_all();
  llama_backend_init();
  struct logits_engine* engine = calloc(1, sizeof *engine);
  if (engine == NULL) return NULL;
  engine->model = llama_model_load_from_file(path, llama_model_default_params());
  if (engine->model == NULL) {
    logits_close(engine);
    return NULL;
  }
  engine->vocabulary = llama_model_get_vocab(engine->model);
  return engine;
}

/* Makes ready to evaluate up to `sequences` sequences of up to `tokens` tokens at a time. `cache_bits` are
 * those of a number in the key-value cache, 16 or 32; `flash_attention` is -1 (as llama.cpp chooses), 0 or
 * 1. 0 when it fails. */
int logits_prepare(struct logits_engine* engine, int sequences, int tokens, int threads, int cache_bits,
                   int flash_attention) {
  struct llama_context_params options = llama_context_default_params();
  options.n_ctx = (uint32_t)(sequences * tokens);
  options.n_batch = options.n_ctx;
  options.n_seq_max = (uint32_t)sequences;
  options.kv_unified = true; /* as llama-server has it by default */
  options.n_threads = threads;
  options.n_threads_batch = threads;
  options.type_k = cache_bits == 32 ? GGML_TYPE_F32 : GGML_TYPE_F16;
  options.type_v = options.type_k;
  options.flash_attn_type = flash_attention < 0   ? LLAMA_FLASH_ATTN_TYPE_AUTO
                            : flash_attention > 0 ? LLAMA_FLASH_ATTN_TYPE_ENABLED
                                                  : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  options.no_perf = true;
  engine->context = llama_init_from_model(engine->model, options);
  if (engine->context == NULL) return 0;
  engine->batch = llama_batch_init((int32_t)options.n_batch, 0, 1);
  engine->rows = calloc(options.n_batch, sizeof *engine->rows);
  return engine->rows != NULL;
}

int logits_vocabulary(const struct logits_engine* engine) {
  return llama_vocab_n_tokens(engine->vocabulary);
}

/* The most tokens of a sequence that the model was made for. */
int logits_longest(const struct logits_engine* engine) {
  return llama_model_n_ctx_train(engine->model);
}

const char* logits_version(void) {
  return llama_version();
}

/* "Q8_0" and the like. */
const char* logits_weights(const struct logits_engine* engine) {
  return llama_ftype_name(llama_model_ftype(engine->model));
}

/* Writes an entry of the model file's metadata as text; its length, or -1 when there is none. */
int logits_metadata(const struct logits_engine* engine, const char* key, char* out, int size) {
  return llama_model_meta_val_str(engine->model, key, out, (size_t)size);
}

/* The tokens of a text, with those that the model adds (its BOS). Their number, or minus the number for
 * which `room` is too small. */
int logits_tokenize(const struct logits_engine* engine, const char* text, int bytes, int32_t* out, int room) {
  return llama_tokenize(engine->vocabulary, text, bytes, out, room, true, false);
}

/* Sequences that are evaluated together. Their tokens follow each other in `tokens`; `lengths` says how
 * many each has, and `first` the first position of each whose logits are wanted, up to its last one. */
struct sequences {
  const int32_t *tokens, *lengths, *first;
  int count;
};

/* Puts the positions of a round into the batch: all of them in one round, or in round 0 those up to
 * `first` and in each later round one more of each sequence. Writes which row of the result each has, -1
 * where no logits are wanted. */
static void fill(struct llama_batch* batch, const struct sequences* all, int round, int one_by_one,
                 int64_t* rows) {
  const int32_t* tokens = all->tokens;
  int64_t row = 0;
  batch->n_tokens = 0;
  for (int sequence = 0; sequence < all->count; ++sequence) {
    const int32_t length = all->lengths[sequence], first = all->first[sequence];
    const int32_t begin = round == 0 ? 0 : first + round;
    const int32_t end = one_by_one && first + round + 1 < length ? first + round + 1 : length;
    for (int32_t position = begin; position < end; ++position) {
      const int at = batch->n_tokens++;
      batch->token[at] = tokens[position];
      batch->pos[at] = position;
      batch->n_seq_id[at] = 1;
      batch->seq_id[at][0] = sequence;
      batch->logits[at] = position >= first;
      rows[at] = position >= first ? row + position - first : -1;
    }
    tokens += length;
    row += length - first;
  }
}

/* Evaluates sequences and writes the logits that are wanted to `out` row by row. With `one_by_one` each
 * wanted position but the first is evaluated alone, as it is when a token is generated. 0 when all went
 * well, else what llama_decode returned. */
int logits_evaluate(struct logits_engine* engine, const int32_t* tokens, const int32_t* lengths,
                    const int32_t* first, int count, int one_by_one, float* out) {
  const struct sequences all = {tokens, lengths, first, count};
  const size_t width = (size_t)llama_vocab_n_tokens(engine->vocabulary);
  llama_memory_clear(llama_get_memory(engine->context), true);
  for (int round = 0; round == 0 || one_by_one; ++round) {
    fill(&engine->batch, &all, round, one_by_one, engine->rows);
    if (engine->batch.n_tokens == 0) break;
    const int failed = llama_decode(engine->context, engine->batch);
    if (failed != 0) return failed;
    for (int at = 0; at < engine->batch.n_tokens; ++at) {
      if (engine->rows[at] < 0) continue;
      const float* logits = llama_get_logits_ith(engine->context, at);
      if (logits == NULL) return -1;
      memcpy(out + (size_t)engine->rows[at] * width, logits, width * sizeof *out);
    }
  }
  return 0;
}
