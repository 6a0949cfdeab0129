/* Captures from files and from memory: the same JSON, to the byte, as that of `driftgate drift`. */
#include <stdlib.h>
#include <string.h>

#include "testing.h"

static dg_inputs inputs_of(const dg_capture* train, const dg_capture* inf) {
  dg_inputs inputs;
  memset(&inputs, 0, sizeof(inputs));
  inputs.struct_size = sizeof(inputs);
  inputs.train = train;
  inputs.inf = inf;
  return inputs;
}

static const char* pair_arguments(const char* more) {
  static char text[4 * 4096];
  snprintf(text, sizeof(text), "'%s' '%s' %s", vector_path("tiny_f32.safetensors"), vector_path("tiny_bf16.safetensors"),
           more);
  return text;
}

static void versions_and_names(void) {
  uint32_t metric = 0;
  CHECK(dg_abi_version() == DG_ABI_VERSION);
  CHECK(strchr(dg_version(), '.') != NULL);
  CHECK(dg_metric_count() == 18 && dg_metric_name(18) == NULL);
  CHECK(strcmp(dg_metric_name(0), "logit_max_abs") == 0);
  for (metric = 0; metric < 18; ++metric) CHECK(strlen(dg_metric_name(metric)) > 1);
  CHECK(strcmp(dg_status_name(DG_NOT_COMPARABLE), "not_comparable") == 0);
  CHECK(strcmp(dg_status_name(77), "unknown") == 0);
  CHECK(dg_last_error().size == 0 && dg_last_error().data[0] == '\0');
  dg_capture_close(NULL);
  dg_head_close(NULL);
  dg_corpus_close(NULL);
  dg_contract_close(NULL);
  dg_result_close(NULL);
  dg_accumulator_close(NULL);
  dg_writer_close(NULL);
}

static void files_give_the_json_of_the_command(void) {
  dg_capture* train = open_vector("tiny_f32.safetensors");
  dg_capture* inf = open_vector("tiny_bf16.safetensors");
  dg_inputs inputs = inputs_of(train, inf);
  dg_options options;
  dg_result* result = NULL;
  OK(dg_measure(&inputs, NULL, &result, &problem));
  CHECK(dg_result_verdict(result) == DG_VERDICT_NONE && dg_result_rows(result) == 2816);
  same_as_command(result, pair_arguments(""));
  dg_result_close(result);
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.metrics = DG_METRICS_CORE;
  options.top_k = 3;
  options.top_rows = 5;
  options.threads = 2;
  OK(dg_measure(&inputs, &options, &result, &problem));
  same_as_command(result, pair_arguments("--metrics core --top-k 3 --top-rows 5"));
  dg_result_close(result);
  dg_capture_close(train);
  dg_capture_close(inf);
}

static void contracts_slices_and_floors_give_the_json_of_the_command(void) {
  char more[4096];
  dg_capture* train = open_vector("tiny_f32.safetensors");
  dg_capture* inf = open_vector("tiny_bf16.safetensors");
  dg_corpus* corpus = tiny_corpus();
  dg_contract* contract = tiny_contract();
  dg_inputs inputs = inputs_of(train, inf);
  dg_capture* floors[2] = {NULL, NULL};
  dg_rows rows = rows_of(inf);
  dg_identity identity = identity_of(inf);
  dg_result* result = NULL;
  CHECK(strcmp(dg_contract_name(contract).data, "tiny") == 0);
  CHECK(strncmp(dg_contract_digest(contract).data, "sha256:", 7) == 0);
  inputs.corpus = corpus;
  inputs.contract = contract;
  OK(dg_measure(&inputs, NULL, &result, &problem));
  snprintf(more, sizeof(more), "--corpus '%s' --contract '%s'", vector_path("tiny_corpus.jsonl"), tiny_contract_path());
  same_as_command(result, pair_arguments(more));
  CHECK(dg_result_verdict(result) != DG_VERDICT_NONE);
  dg_result_close(result);
  /* A floor of two captures: the kernel against itself, which only another object is allowed to be. */
  OK(dg_capture_from_rows(&rows, &identity, dg_text_of("again"), &floors[0], &problem));
  OK(dg_capture_from_rows(&rows, &identity, dg_text_of("once more"), &floors[1], &problem));
  inputs.floor_inf[0] = floors[0];
  inputs.floor_inf[1] = floors[1];
  OK(dg_measure(&inputs, NULL, &result, &problem));
  {
    char copy[1024];
    snprintf(copy, sizeof(copy), "cp '%s' '%s'", vector_path("tiny_bf16.safetensors"), own_path("again.safetensors"));
    CHECK(system(copy) == 0);
    snprintf(more, sizeof(more), "--corpus '%s' --contract '%s' --floor-inf '%s' --floor-inf '%s'",
             vector_path("tiny_corpus.jsonl"), tiny_contract_path(), own_path("again.safetensors"),
             vector_path("tiny_bf16.safetensors"));
  }
  same_as_command(result, pair_arguments(more));
  dg_result_close(result);
  dg_capture_close(floors[0]);
  dg_capture_close(floors[1]);
  dg_contract_close(contract);
  dg_corpus_close(corpus);
  dg_capture_close(train);
  dg_capture_close(inf);
}

static void other_forms_are_those_of_the_command(void) {
  char more[4096];
  dg_capture* train = open_vector("tiny_f32.safetensors");
  dg_capture* inf = open_vector("tiny_bf16.safetensors");
  dg_contract* contract = tiny_contract();
  dg_inputs inputs = inputs_of(train, inf);
  dg_result* result = NULL;
  const uint32_t formats[2] = {DG_FORMAT_MARKDOWN, DG_FORMAT_JUNIT};
  const char* names[2] = {"report.md", "report.xml"};
  size_t size = 0, at = 0;
  int code = 0;
  inputs.contract = contract;
  OK(dg_measure(&inputs, NULL, &result, &problem));
  snprintf(more, sizeof(more), "--contract '%s' --report markdown='%s' --report junit='%s'", tiny_contract_path(),
           own_path(names[0]), own_path(names[1]));
  free(command_json(pair_arguments(more), &size, &code));
  for (at = 0; at < 2; ++at) {
    char* wanted = read_whole(own_path(names[at]), &size);
    dg_text text = {NULL, 0};
    OK(dg_result_format(result, formats[at], &text, &problem));
    CHECK(text.size == size && memcmp(text.data, wanted, size) == 0);
    free(wanted);
  }
  dg_result_close(result);
  dg_contract_close(contract);
  dg_capture_close(train);
  dg_capture_close(inf);
}

/** A copy of rows with a gap behind each, and at an odd address. Free its `storage`. */
static dg_rows apart(const dg_rows* rows, unsigned char** storage) {
  dg_rows out = *rows;
  const uint64_t tight = rows->logits.columns * element_bytes(rows->logits.dtype), stride = tight + 7;
  uint64_t row = 0;
  *storage = malloc(rows->rows * stride + 1);
  CHECK(*storage != NULL);
  memset(*storage, 0xff, rows->rows * stride + 1);
  for (row = 0; row < rows->rows; ++row)
    memcpy(*storage + 1 + row * stride, (const char*)rows->logits.data + row * tight, tight);
  out.logits.data = *storage + 1;
  out.logits.row_stride_bytes = stride;
  return out;
}

static void rows_in_memory_give_the_json_of_the_command(void) {
  char more[4096];
  const char* files[2] = {"tiny_f32.safetensors", "tiny_bf16.safetensors"};
  dg_capture* memory[2] = {NULL, NULL};
  unsigned char* storage[2] = {NULL, NULL};
  dg_corpus* corpus = NULL;
  dg_contract* contract = tiny_contract();
  dg_inputs inputs;
  dg_result* result = NULL;
  size_t size = 0, side = 0;
  char* text = read_whole(vector_path("tiny_corpus.jsonl"), &size);
  const dg_text lines = {text, size};
  OK(dg_corpus_parse(lines, dg_text_of("lines"), &corpus, &problem));
  memset(text, 0, size);
  for (side = 0; side < 2; ++side) {
    dg_capture* file = open_vector(files[side]);
    const dg_rows tight = rows_of(file), rows = apart(&tight, &storage[side]);
    const dg_identity identity = identity_of(file);
    OK(dg_capture_from_rows(&rows, &identity, dg_text_of(NULL), &memory[side], &problem));
    dg_capture_close(file); /* what it was made from is not needed, but for the logits */
  }
  inputs = inputs_of(memory[0], memory[1]);
  inputs.corpus = corpus;
  inputs.contract = contract;
  OK(dg_measure(&inputs, NULL, &result, &problem));
  snprintf(more, sizeof(more), "--corpus '%s' --contract '%s'", vector_path("tiny_corpus.jsonl"), tiny_contract_path());
  same_as_command(result, pair_arguments(more));
  dg_result_close(result);
  for (side = 0; side < 2; ++side) {
    dg_capture_close(memory[side]);
    free(storage[side]);
  }
  dg_corpus_close(corpus);
  dg_contract_close(contract);
  free(text);
}

/** The offset of a tensor's bytes in a safetensors file. */
static const double* tensor_of(const char* bytes, const char* name) {
  uint64_t header = 0, begin = 0;
  char key[64];
  const char* at = NULL;
  memcpy(&header, bytes, 8);
  snprintf(key, sizeof(key), "\"%s\":{", name);
  at = strstr(bytes + 8, key);
  CHECK(at != NULL);
  at = strstr(at, "\"data_offsets\":[");
  CHECK(at != NULL);
  begin = strtoull(at + strlen("\"data_offsets\":["), NULL, 10);
  return (const double*)(const void*)(bytes + 8 + header + begin);
}

static void figures_of_rows_are_those_of_rows_out(void) {
  char more[2048];
  dg_capture* train = open_vector("tiny_f32.safetensors");
  dg_capture* inf = open_vector("tiny_bf16.safetensors");
  dg_inputs inputs = inputs_of(train, inf);
  dg_options options;
  dg_result* result = NULL;
  size_t size = 0;
  int code = 0;
  uint32_t metric = 0;
  char* bytes = NULL;
  double* values = malloc(2816 * sizeof(double));
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.keep_rows = 1;
  OK(dg_measure(&inputs, &options, &result, &problem));
  snprintf(more, sizeof(more), "--rows-out '%s'", own_path("rows.safetensors"));
  free(command_json(pair_arguments(more), &size, &code));
  bytes = read_whole(own_path("rows.safetensors"), &size);
  for (metric = 0; metric < dg_metric_count(); ++metric) {
    const char* wanted = (const char*)tensor_of(bytes, dg_metric_name(metric));
    OK(dg_result_column(result, metric, 0, 2816, values, &problem));
    CHECK(memcmp(values, wanted, 2816 * sizeof(double)) == 0);
    OK(dg_result_column(result, metric, 2810, 6, values, &problem));
    CHECK(memcmp(values, wanted + 2810 * sizeof(double), 6 * sizeof(double)) == 0);
  }
  OK(dg_result_column(result, 0, 2816, 0, NULL, &problem));
  REFUSED(dg_result_column(result, 18, 0, 1, values, &problem), DG_INVALID_ARGUMENT, "no figure 18");
  REFUSED(dg_result_column(result, 0, 2810, 7, values, &problem), DG_INVALID_ARGUMENT, "there are 2816");
  REFUSED(dg_result_column(result, 0, UINT64_MAX, 2, values, &problem), DG_INVALID_ARGUMENT, "there are 2816");
  dg_result_close(result);
  OK(dg_measure(&inputs, NULL, &result, &problem));
  REFUSED(dg_result_column(result, 0, 0, 1, values, &problem), DG_CONFLICT, "keep_rows");
  dg_result_close(result);
  dg_capture_close(train);
  dg_capture_close(inf);
  free(values);
  free(bytes);
}

static void a_capture_says_what_it_holds(void) {
  dg_capture* capture = open_vector("tiny_bf16.safetensors");
  dg_capture_info info;
  dg_matrix matrix;
  uint64_t first = 0, rows = 0;
  const int64_t* values = NULL;
  memset(&info, 0, sizeof(info));
  info.struct_size = sizeof(info);
  OK(dg_capture_get_info(capture, &info, &problem));
  {
    struct {
      dg_capture_info known;
      char later[64];
    } longer;
    memset(&longer, 0x5a, sizeof(longer)); /* an output: nothing in it but its size is read */
    longer.known.struct_size = sizeof(longer);
    OK(dg_capture_get_info(capture, &longer.known, &problem));
    CHECK(longer.known.rows == 2816 && longer.known.identity.struct_size == sizeof(dg_identity));
    CHECK(longer.later[0] == 0x5a && longer.later[63] == 0x5a);
    longer.known.struct_size = sizeof(dg_capture_info) - 1;
    REFUSED(dg_capture_get_info(capture, &longer.known, &problem), DG_INVALID_ARGUMENT,
            "struct_size of info");
  }
  CHECK(info.mode == DG_MODE_FULL && info.rows == 2816 && info.vocabulary == 259 && info.columns == 259);
  CHECK(info.has_tokens == 1 && info.has_logprobs == 0 && info.pieces == 1);
  CHECK(strcmp(info.identity.kernel.data, "tinylm-bf16") == 0 && info.identity.temperature == 1);
  CHECK(strcmp(info.identity.token_source.data, "corpus") == 0);
  OK(dg_capture_matrix(capture, 0, &matrix, &first, &rows, &problem));
  CHECK(matrix.dtype == DG_BF16 && matrix.columns == 259 && matrix.row_stride_bytes == 518 && rows == 2816);
  REFUSED(dg_capture_matrix(capture, 1, &matrix, &first, &rows, &problem), DG_INVALID_ARGUMENT, "no piece 1");
  REFUSED(dg_capture_column(capture, 3, &values, &rows, &problem), DG_INVALID_ARGUMENT, "no column 3");
  dg_capture_close(capture);
}

const test_case capture_tests[] = {
    {"versions_and_names", versions_and_names},
    {"files_give_the_json_of_the_command", files_give_the_json_of_the_command},
    {"contracts_slices_and_floors_give_the_json_of_the_command",
     contracts_slices_and_floors_give_the_json_of_the_command},
    {"other_forms_are_those_of_the_command", other_forms_are_those_of_the_command},
    {"rows_in_memory_give_the_json_of_the_command", rows_in_memory_give_the_json_of_the_command},
    {"figures_of_rows_are_those_of_rows_out", figures_of_rows_are_those_of_rows_out},
    {"a_capture_says_what_it_holds", a_capture_says_what_it_holds},
    {NULL, NULL},
};
