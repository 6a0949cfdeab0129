/* The tests of the C interface: `library_tests NAME` runs one. The environment names the source tree (DRIFTGATE_ROOT)
 * and the program whose results are compared with (DRIFTGATE_BIN). */
#define _POSIX_C_SOURCE 200809L
#include "testing.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

dg_error problem = {sizeof(dg_error), 0, 0, {0}};
static char folder[] = "/tmp/driftgate-library-XXXXXX";

void fail_test(const char* file, int line, const char* what) {
  fprintf(stderr, "%s:%d: failed: %s\n", file, line, what);
  exit(1);
}

void refused(const char* file, int line, dg_status status, dg_status wanted, const char* part, const dg_error* got) {
  char text[512];
  if (status == wanted && got->code == wanted && strstr(got->message, part) != NULL &&
      strstr(dg_last_error().data, part) != NULL)
    return;
  snprintf(text, sizeof(text), "status %s, wanted %s with '%.80s'; message: %.200s", dg_status_name(status),
           dg_status_name(wanted), part, got->message);
  fail_test(file, line, text);
}

const char* vector_path(const char* name) {
  static char paths[2][1024];
  static int at;
  at = (at + 1) % 2;
  snprintf(paths[at], sizeof(paths[at]), "%s/tests/vectors/%s", getenv("DRIFTGATE_ROOT"), name);
  return paths[at];
}

const char* own_path(const char* name) {
  static char paths[4][1024];
  static int at;
  at = (at + 1) % 4;
  snprintf(paths[at], sizeof(paths[at]), "%s/%s", folder, name);
  return paths[at];
}

void write_text(const char* path, const char* text) {
  FILE* file = fopen(path, "wb");
  CHECK(file != NULL);
  CHECK(fwrite(text, 1, strlen(text), file) == strlen(text));
  CHECK(fclose(file) == 0);
}

char* read_whole(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  long end = 0;
  char* bytes = NULL;
  CHECK(file != NULL);
  CHECK(fseek(file, 0, SEEK_END) == 0);
  end = ftell(file);
  CHECK(end >= 0 && fseek(file, 0, SEEK_SET) == 0);
  bytes = malloc((size_t)end + 1);
  CHECK(bytes != NULL && fread(bytes, 1, (size_t)end, file) == (size_t)end);
  bytes[end] = '\0';
  fclose(file);
  *size = (size_t)end;
  return bytes;
}

char* command_json(const char* arguments, size_t* size, int* code) {
  char command[8192];
  int status = 0;
  snprintf(command, sizeof(command), "'%s' drift --json '%s' %s > /dev/null", getenv("DRIFTGATE_BIN"),
           own_path("command.json"), arguments);
  status = system(command);
  CHECK(WIFEXITED(status));
  *code = WEXITSTATUS(status);
  return read_whole(own_path("command.json"), size);
}

void same_as_command(const dg_result* result, const char* arguments) {
  size_t size = 0;
  int code = 0;
  char* wanted = command_json(arguments, &size, &code);
  dg_text json = {NULL, 0};
  OK(dg_result_format(result, DG_FORMAT_JSON, &json, &problem));
  if (json.size != size || memcmp(json.data, wanted, size) != 0) {
    write_text(own_path("library.json"), json.data);
    fprintf(stderr, "the JSON differs: %s is of the command\n", own_path("command.json"));
    fail_test(__FILE__, __LINE__, arguments);
  }
  CHECK(json.data[json.size] == '\0');
  CHECK(dg_result_exit_code(result) == code);
  free(wanted);
}

void same_json(const dg_result* a, const dg_result* b) {
  dg_text left = {NULL, 0}, right = {NULL, 0};
  OK(dg_result_format(a, DG_FORMAT_JSON, &left, &problem));
  OK(dg_result_format(b, DG_FORMAT_JSON, &right, &problem));
  CHECK(left.size == right.size && memcmp(left.data, right.data, left.size) == 0);
  CHECK(dg_result_verdict(a) == dg_result_verdict(b) && dg_result_rows(a) == dg_result_rows(b));
}

dg_capture* open_vector(const char* name) {
  dg_capture* out = NULL;
  OK(dg_capture_open(dg_text_of(vector_path(name)), NULL, &out, &problem));
  return out;
}

dg_corpus* tiny_corpus(void) {
  dg_corpus* out = NULL;
  OK(dg_corpus_open(dg_text_of(vector_path("tiny_corpus.jsonl")), &out, &problem));
  return out;
}

const char* tiny_contract_path(void) {
  const char* path = own_path("contract.yaml");
  write_text(path,
             "apiVersion: driftgate/v1\n"
             "kind: KernelContract\n"
             "metadata: {name: tiny, description: Of the tests, owners: [tests@example.org]}\n"
             "kernels: {train: {ref: tinylm-f32}, inf: {ref: tinylm-bf16}}\n"
             "slices: {dimensions: [domain, prompt_length], min_sequences: 10, critical: [{domain: license}]}\n"
             "numerical:\n"
             "  - {id: finite, metric: nonfinite, aggregate: sum, max: 0}\n"
             "  - {id: bits, tensor: logits, equal: true, severity: soft}\n"
             "  - {id: span, metric: logit_span, aggregate: p99, max: 0.75}\n"
             "  - {id: kl, metric: kl_inf_train, aggregate: sequence_mean, clip: 0.1, max: 0.005}\n"
             "statistical:\n"
             "  - {id: tv, metric: tv, aggregate: sequence_mean, clip: 0.25, max: 0.02, slices: [critical, monitored]}\n");
  return path;
}

dg_contract* tiny_contract(void) {
  dg_contract* out = NULL;
  OK(dg_contract_open(dg_text_of(tiny_contract_path()), &out, &problem));
  return out;
}

dg_rows rows_of(const dg_capture* capture) {
  dg_rows rows;
  uint64_t first = 0, count = 0;
  memset(&rows, 0, sizeof(rows));
  rows.struct_size = sizeof(rows);
  OK(dg_capture_matrix(capture, 0, &rows.logits, &first, &rows.rows, &problem));
  CHECK(first == 0);
  OK(dg_capture_column(capture, DG_COLUMN_TOKENS, &rows.tokens, &count, &problem));
  OK(dg_capture_column(capture, DG_COLUMN_SEQUENCES, &rows.sequences, &count, &problem));
  OK(dg_capture_column(capture, DG_COLUMN_POSITIONS, &rows.positions, &count, &problem));
  CHECK(count == rows.rows);
  return rows;
}

size_t element_bytes(uint32_t dtype) {
  return dtype == DG_I64 ? 8 : dtype == DG_F16 || dtype == DG_BF16 ? 2 : 4;
}

static void skip_rows(dg_matrix* matrix, uint64_t rows) {
  const uint64_t tight = matrix->columns * element_bytes(matrix->dtype);
  const uint64_t stride = matrix->row_stride_bytes == 0 ? tight : matrix->row_stride_bytes;
  if (matrix->data != NULL) matrix->data = (const char*)matrix->data + rows * stride;
}

dg_rows part_of(const dg_rows* rows, uint64_t first, uint64_t count) {
  dg_rows out = *rows;
  out.rows = count;
  if (out.tokens != NULL) out.tokens += first;
  if (out.sequences != NULL) out.sequences += first;
  if (out.positions != NULL) out.positions += first;
  if (out.logprobs != NULL) out.logprobs += first;
  skip_rows(&out.logits, first);
  skip_rows(&out.hidden, first);
  skip_rows(&out.topk_ids, first);
  skip_rows(&out.topk_logprobs, first);
  return out;
}

dg_identity identity_of(const dg_capture* capture) {
  dg_capture_info info;
  memset(&info, 0, sizeof(info));
  info.struct_size = sizeof(info);
  OK(dg_capture_get_info(capture, &info, &problem));
  return info.identity;
}

uint64_t next_random(uint64_t* state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

int main(int argc, char** argv) {
  const test_case* const lists[] = {capture_tests, batch_tests, error_tests, thread_tests};
  size_t list = 0;
  CHECK(getenv("DRIFTGATE_ROOT") != NULL && getenv("DRIFTGATE_BIN") != NULL);
  CHECK(argc == 2 && mkdtemp(folder) != NULL);
  for (list = 0; list < sizeof(lists) / sizeof(lists[0]); ++list) {
    const test_case* test = NULL;
    for (test = lists[list]; test->name != NULL; ++test) {
      char command[64];
      if (strcmp(test->name, argv[1]) != 0) continue;
      test->run();
      snprintf(command, sizeof(command), "rm -r '%s'", folder);
      CHECK(system(command) == 0);
      return 0;
    }
  }
  fail_test(__FILE__, __LINE__, "there is no test of this name");
  return 1;
}
