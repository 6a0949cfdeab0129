/* Batches give the table of one pass, to the bit, and written captures are those that the command reads. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"

enum { kRows = 240, kWidth = 24, kVocabulary = 97, kListed = 5 };

/** Rows of every kind, of both kernels: sequences mix, and go on over all rows. */
typedef struct made_rows {
  int64_t tokens[kRows], sequences[kRows], positions[kRows], ids[kRows * kListed];
  float logits[kRows * kVocabulary], hidden[kRows * kWidth], listed[kRows * kListed], logprobs[kRows];
} made_rows;

static float noise(uint64_t* state) {
  return (float)((double)next_random(state) / 2147483648.0 - 0.5);
}

static void make_row(made_rows* out, size_t row, const float* base_logits, const float* base_hidden, float size,
                     uint64_t* state) {
  float* logits = out->logits + row * kVocabulary;
  size_t i = 0;
  double sum = 0;
  for (i = 0; i < kVocabulary; ++i) logits[i] = base_logits[i] + size * noise(state);
  for (i = 0; i < kWidth; ++i) out->hidden[row * kWidth + i] = base_hidden[i] + size * noise(state);
  for (i = 0; i < kVocabulary; ++i) sum += exp(logits[i]);
  for (i = 0; i < kListed; ++i) {
    out->ids[row * kListed + i] = (int64_t)((row * 31 + i * 7) % kVocabulary);
    out->listed[row * kListed + i] = (float)(logits[out->ids[row * kListed + i]] - log(sum));
  }
  out->logprobs[row] = (float)(logits[out->tokens[row]] - log(sum));
}

static void make_rows(made_rows* train, made_rows* inf) {
  uint64_t state = 7;
  size_t row = 0, i = 0;
  for (row = 0; row < kRows; ++row) {
    float logits[kVocabulary], hidden[kWidth];
    for (i = 0; i < kVocabulary; ++i) logits[i] = 6 * noise(&state);
    for (i = 0; i < kWidth; ++i) hidden[i] = 2 * noise(&state);
    train->tokens[row] = inf->tokens[row] = (int64_t)(next_random(&state) % kVocabulary);
    train->sequences[row] = inf->sequences[row] = (int64_t)(row < 120 ? next_random(&state) % 30 : row % 30);
    train->positions[row] = inf->positions[row] = (int64_t)row;
    make_row(train, row, logits, hidden, 0, &state);
    make_row(inf, row, logits, hidden, 0.2F, &state);
  }
}

enum { kFull, kHidden, kTopK, kMatched, kRealised, kKinds };

static dg_rows view_of(const made_rows* made, int kind, const dg_head* head) {
  dg_rows rows;
  memset(&rows, 0, sizeof(rows));
  rows.struct_size = sizeof(rows);
  rows.rows = kRows;
  rows.tokens = made->tokens;
  rows.sequences = made->sequences;
  rows.positions = made->positions;
  if (kind == kFull) {
    rows.logits.data = made->logits;
    rows.logits.columns = kVocabulary;
  } else if (kind == kHidden) {
    rows.hidden.data = made->hidden;
    rows.hidden.columns = kWidth;
    rows.head = head;
  } else {
    rows.logprobs = made->logprobs;
    rows.vocabulary = kVocabulary;
    if (kind != kRealised) {
      rows.topk_ids.data = made->ids;
      rows.topk_ids.dtype = DG_I64;
      rows.topk_logprobs.data = made->listed;
      rows.topk_ids.columns = rows.topk_logprobs.columns = kListed;
      rows.matched = kind == kMatched ? 1 : 0;
      rows.logprob_error = 1e-5;
    }
  }
  return rows;
}

static dg_head* make_head(float* weight, float* bias) {
  dg_head_options options;
  dg_head* head = NULL;
  uint64_t state = 11;
  size_t i = 0;
  for (i = 0; i < (size_t)kWidth * (kVocabulary + 3); ++i) weight[i] = 2 * noise(&state);
  for (i = 0; i < kVocabulary + 3; ++i) bias[i] = noise(&state);
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.vocabulary = kVocabulary;
  options.rows = kVocabulary + 3;
  options.weight.data = weight;
  options.weight.columns = kWidth;
  options.bias = bias;
  options.scale = 1.5;
  options.soft_cap = 30;
  OK(dg_head_from_memory(&options, &head, &problem));
  return head;
}

static void identities(dg_identity* train, dg_identity* inf) {
  memset(train, 0, sizeof(*train));
  train->struct_size = sizeof(*train);
  train->kernel = dg_text_of("tinylm-f32");
  train->checkpoint_digest = dg_text_of("sha256:abab");
  train->token_source = dg_text_of("k_inf");
  train->temperature = 0.7;
  *inf = *train;
  inf->kernel = dg_text_of("tinylm-bf16");
}

static dg_result* one_pass(const dg_rows* train, const dg_rows* inf, const dg_corpus* corpus,
                           const dg_contract* contract, const dg_options* options, const dg_identity* of_train,
                           const dg_identity* of_inf) {
  dg_inputs inputs;
  dg_capture *a = NULL, *b = NULL;
  dg_result* result = NULL;
  OK(dg_capture_from_rows(train, of_train, dg_text_of(NULL), &a, &problem));
  OK(dg_capture_from_rows(inf, of_inf, dg_text_of(NULL), &b, &problem));
  memset(&inputs, 0, sizeof(inputs));
  inputs.struct_size = sizeof(inputs);
  inputs.train = a;
  inputs.inf = b;
  inputs.corpus = corpus;
  inputs.contract = contract;
  OK(dg_measure(&inputs, options, &result, &problem));
  dg_capture_close(a);
  dg_capture_close(b);
  return result;
}

static dg_result* in_batches(const dg_rows* train, const dg_rows* inf, uint64_t seed,
                             const dg_accumulator_options* options) {
  dg_accumulator* accumulator = NULL;
  dg_result* result = NULL;
  uint64_t at = 0, state = seed;
  OK(dg_accumulator_create(options, &accumulator, &problem));
  while (at < train->rows) {
    const uint64_t most = seed == 1 ? 1 : 1 + next_random(&state) % (train->rows / 3);
    const uint64_t count = most < train->rows - at ? most : train->rows - at;
    const dg_rows a = part_of(train, at, count);
    dg_rows b = part_of(inf, at, count);
    if (next_random(&state) % 2 == 0) b.tokens = b.sequences = b.positions = NULL; /* those of train */
    OK(dg_accumulator_add(accumulator, &a, &b, &problem));
    at += count;
    CHECK(dg_accumulator_rows(accumulator) == at);
    if (at < train->rows && next_random(&state) % 4 == 0) { /* a result on the way changes nothing */
      OK(dg_accumulator_finish(accumulator, &result, &problem));
      CHECK(dg_result_rows(result) == at);
      dg_result_close(result);
    }
  }
  OK(dg_accumulator_finish(accumulator, &result, &problem));
  dg_accumulator_close(accumulator);
  return result;
}

static void batches_of_logits_give_the_table_of_one_pass(void) {
  dg_capture* train = open_vector("tiny_f32.safetensors");
  dg_capture* inf = open_vector("tiny_bf16.safetensors");
  const dg_rows a = rows_of(train), b = rows_of(inf);
  const dg_identity of_a = identity_of(train), of_b = identity_of(inf);
  dg_corpus* corpus = tiny_corpus();
  dg_contract* contract = tiny_contract();
  dg_accumulator_options options;
  dg_result *whole = NULL, *split = NULL;
  char more[4096];
  uint64_t seed = 0;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.train = &of_a;
  options.inf = &of_b;
  options.corpus = corpus;
  options.contract = contract;
  whole = one_pass(&a, &b, corpus, contract, NULL, &of_a, &of_b);
  for (seed = 2; seed < 6; ++seed) {
    split = in_batches(&a, &b, seed, &options);
    same_json(whole, split);
    if (seed < 5) dg_result_close(split);
  }
  dg_corpus_close(corpus);
  dg_contract_close(contract);
  snprintf(more, sizeof(more), "'%s' '%s' --corpus '%s' --contract '%s'", vector_path("tiny_f32.safetensors"),
           own_path("bf16.safetensors"), vector_path("tiny_corpus.jsonl"), tiny_contract_path());
  {
    char copy[2048];
    snprintf(copy, sizeof(copy), "cp '%s' '%s'", vector_path("tiny_bf16.safetensors"), own_path("bf16.safetensors"));
    CHECK(system(copy) == 0);
    snprintf(more, sizeof(more), "'%s' '%s' --corpus '%s' --contract '%s'", vector_path("tiny_f32.safetensors"),
             own_path("bf16.safetensors"), vector_path("tiny_corpus.jsonl"), tiny_contract_path());
  }
  same_as_command(split, more);
  dg_result_close(split);
  dg_result_close(whole);
  dg_capture_close(train);
  dg_capture_close(inf);
}

static void same_columns(const dg_result* a, const dg_result* b) {
  double left[kRows], right[kRows];
  uint32_t metric = 0;
  for (metric = 0; metric < dg_metric_count(); ++metric) {
    OK(dg_result_column(a, metric, 0, kRows, left, &problem));
    OK(dg_result_column(b, metric, 0, kRows, right, &problem));
    CHECK(memcmp(left, right, sizeof(left)) == 0);
  }
}

static void batches_of_every_kind_give_the_table_of_one_pass(void) {
  static made_rows train, inf;
  static float weight[kWidth * (kVocabulary + 3)], bias[kVocabulary + 3];
  dg_head* head = make_head(weight, bias);
  dg_identity of_train, of_inf;
  /* Under valgrind one way to cut the rows must do. */
  const uint64_t first_seed = getenv("DRIFTGATE_FEW_BATCHES") != NULL ? 7 : 1;
  int kind = 0, positions = 0;
  make_rows(&train, &inf);
  identities(&of_train, &of_inf);
  for (kind = 0; kind < kKinds; ++kind) {
    for (positions = 0; positions < 2; ++positions) {
      dg_rows a = view_of(&train, kind, head), b = view_of(&inf, kind, head);
      dg_options options;
      dg_accumulator_options batches;
      dg_result* whole = NULL;
      uint64_t seed = 0;
      if (positions == 0) a.positions = b.positions = NULL;
      memset(&options, 0, sizeof(options));
      options.struct_size = sizeof(options);
      options.threads = 2;
      options.keep_rows = kind <= kHidden ? 1 : 0;
      memset(&batches, 0, sizeof(batches));
      batches.struct_size = sizeof(batches);
      batches.train = &of_train;
      batches.inf = &of_inf;
      batches.options = &options;
      whole = one_pass(&a, &b, NULL, NULL, &options, &of_train, &of_inf);
      for (seed = first_seed; seed < 8; ++seed) {
        dg_result* split = in_batches(&a, &b, seed, &batches);
        same_json(whole, split);
        if (options.keep_rows == 1) same_columns(whole, split);
        dg_result_close(split);
      }
      dg_result_close(whole);
    }
  }
  dg_head_close(head);
}

static void write_capture(const char* path, const dg_rows* rows, const dg_identity* identity, uint64_t part_bytes) {
  dg_writer_options options;
  dg_writer* writer = NULL;
  uint64_t at = 0;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.identity = identity;
  options.part_bytes = part_bytes;
  OK(dg_writer_create(dg_text_of(path), &options, &writer, &problem));
  for (at = 0; at < rows->rows; at += 16) {
    const dg_rows part = part_of(rows, at, 16);
    OK(dg_writer_append(writer, &part, &problem));
  }
  OK(dg_writer_finish(writer, &problem));
  REFUSED(dg_writer_append(writer, rows, &problem), DG_CONFLICT, "is finished");
  REFUSED(dg_writer_finish(writer, &problem), DG_CONFLICT, "is finished");
  dg_writer_close(writer);
}

static void written_captures_are_what_the_command_reads(void) {
  static made_rows train, inf;
  static float weight[kWidth * (kVocabulary + 3)], bias[kVocabulary + 3];
  dg_head* head = make_head(weight, bias);
  dg_identity of_train, of_inf;
  int kind = 0;
  make_rows(&train, &inf);
  identities(&of_train, &of_inf);
  for (kind = 0; kind < kKinds; ++kind) {
    char a_path[64], b_path[64], arguments[4096];
    dg_rows a = view_of(&train, kind, head), b = view_of(&inf, kind, head);
    dg_capture* read = NULL;
    dg_capture_info info;
    dg_result* result = NULL;
    if (kind == kFull) a.positions = b.positions = NULL;
    snprintf(a_path, sizeof(a_path), "%s-%d", "train", kind);
    snprintf(b_path, sizeof(b_path), "%s-%d", "inf", kind);
    write_capture(own_path(a_path), &a, &of_train, 4096);
    write_capture(own_path(b_path), &b, &of_inf, 0);
    result = one_pass(&a, &b, NULL, NULL, NULL, &of_train, &of_inf);
    snprintf(arguments, sizeof(arguments), "'%s' '%s'", own_path(a_path), own_path(b_path));
    same_as_command(result, arguments);
    dg_result_close(result);
    OK(dg_capture_open(dg_text_of(own_path(a_path)), NULL, &read, &problem));
    memset(&info, 0, sizeof(info));
    info.struct_size = sizeof(info);
    OK(dg_capture_get_info(read, &info, &problem));
    CHECK(info.rows == kRows && info.pieces > 1 && info.vocabulary == kVocabulary);
    dg_capture_close(read);
  }
  dg_head_close(head);
}

/** A contract that asks for equal tokens, as well as for a small drift. */
static dg_contract* contract_on_tokens(void) {
  dg_contract* out = NULL;
  OK(dg_contract_parse(
      dg_text_of("apiVersion: driftgate/v1\n"
                 "kind: KernelContract\n"
                 "metadata: {name: same, description: Of the tests, owners: [tests@example.org]}\n"
                 "kernels: {train: {ref: tinylm-f32}, inf: {ref: tinylm-bf16}}\n"
                 "numerical:\n"
                 "  - {id: same, tensor: tokens, equal: true}\n"
                 "  - {id: kl, metric: kl_inf_train, aggregate: sequence_mean, clip: 0.1, max: 0.09}\n"),
      dg_text_of(NULL), &out, &problem));
  return out;
}

/** NaN in each figure of each row. */
static void check_unknown(const dg_result* result) {
  double values[kRows];
  uint32_t metric = 0;
  size_t row = 0;
  for (metric = 0; metric < dg_metric_count(); ++metric) {
    OK(dg_result_column(result, metric, 0, kRows, values, &problem));
    for (row = 0; row < kRows; ++row) CHECK(isnan(values[row]));
  }
}

static void other_tokens_in_a_batch_give_the_verdict_of_one_pass(void) {
  static made_rows train, inf;
  static float weight[kWidth * (kVocabulary + 3)], bias[kVocabulary + 3];
  dg_head* head = make_head(weight, bias);
  dg_contract* contract = contract_on_tokens();
  dg_identity of_train, of_inf;
  int kind = 0;
  make_rows(&train, &inf);
  identities(&of_train, &of_inf);
  for (kind = kFull; kind <= kMatched; ++kind) {
    dg_rows a = view_of(&train, kind, head), b = view_of(&inf, kind, head);
    dg_options options;
    dg_accumulator_options batches;
    dg_accumulator* accumulator = NULL;
    dg_result *whole = NULL, *split = NULL;
    uint64_t at = 0;
    memset(&options, 0, sizeof(options));
    options.struct_size = sizeof(options);
    options.keep_rows = kind <= kHidden ? 1 : 0;
    memset(&batches, 0, sizeof(batches));
    batches.struct_size = sizeof(batches);
    batches.train = &of_train;
    batches.inf = &of_inf;
    batches.options = &options;
    batches.contract = contract;
    b.logprobs = a.logprobs; /* which belong to the tokens */
    for (; inf.tokens[101] == train.tokens[101]; inf.tokens[101] = (inf.tokens[101] + 1) % kVocabulary)
      continue;
    whole = one_pass(&a, &b, NULL, contract, &options, &of_train, &of_inf);
    CHECK(dg_result_verdict(whole) == DG_VERDICT_VIOLATED);
    OK(dg_accumulator_create(&batches, &accumulator, &problem));
    for (at = 0; at < kRows; at += 60) {
      const dg_rows of_a = part_of(&a, at, 60), of_b = part_of(&b, at, 60);
      OK(dg_accumulator_add(accumulator, &of_a, &of_b, &problem));
    }
    CHECK(dg_accumulator_rows(accumulator) == kRows);
    OK(dg_accumulator_finish(accumulator, &split, &problem));
    same_json(whole, split);
    if (options.keep_rows == 1) {
      check_unknown(whole);
      check_unknown(split);
    }
    dg_result_close(whole);
    dg_result_close(split);
    dg_accumulator_close(accumulator);
  }
  dg_contract_close(contract);
  dg_head_close(head);
}

static void the_bias_of_a_head_may_be_freed_before_it_is_written(void) {
  static made_rows made;
  static float weight[kWidth * (kVocabulary + 3)], bias[kVocabulary + 3];
  dg_head* head = make_head(weight, bias);
  dg_rows rows;
  dg_identity identity, other;
  dg_capture *memory = NULL, *file = NULL;
  dg_inputs inputs;
  dg_options options;
  dg_result* result = NULL;
  double spans[kRows];
  size_t i = 0;
  make_rows(&made, &made);
  identities(&identity, &other);
  rows = view_of(&made, kHidden, head);
  memset(bias, 0x7f, sizeof(bias));
  write_capture(own_path("kept"), &rows, &identity, 0);
  OK(dg_capture_from_rows(&rows, &identity, dg_text_of(NULL), &memory, &problem));
  OK(dg_capture_open(dg_text_of(own_path("kept")), NULL, &file, &problem));
  memset(&inputs, 0, sizeof(inputs));
  inputs.struct_size = sizeof(inputs);
  inputs.train = memory;
  inputs.inf = file;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.keep_rows = 1;
  OK(dg_measure(&inputs, &options, &result, &problem));
  OK(dg_result_column(result, 0, 0, kRows, spans, &problem)); /* logit_max_abs */
  for (i = 0; i < kRows; ++i) CHECK(spans[i] == 0);
  dg_result_close(result);
  dg_capture_close(memory);
  dg_capture_close(file);
  dg_head_close(head);
}

const test_case batch_tests[] = {
    {"other_tokens_in_a_batch_give_the_verdict_of_one_pass",
     other_tokens_in_a_batch_give_the_verdict_of_one_pass},
    {"the_bias_of_a_head_may_be_freed_before_it_is_written",
     the_bias_of_a_head_may_be_freed_before_it_is_written},
    {"batches_of_logits_give_the_table_of_one_pass", batches_of_logits_give_the_table_of_one_pass},
    {"batches_of_every_kind_give_the_table_of_one_pass", batches_of_every_kind_give_the_table_of_one_pass},
    {"written_captures_are_what_the_command_reads", written_captures_are_what_the_command_reads},
    {NULL, NULL},
};
