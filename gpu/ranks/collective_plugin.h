/* The interface between driftgate and the libraries that exchange bytes between ranks: MPI and NCCL, each a
 * plugin library with one symbol that returns a table of C functions. Neither is linked to. Descriptors are
 * plain, buffers belong to the caller; no C++ type, exception or ownership crosses. */
#ifndef DRIFTGATE_GPU_COLLECTIVE_PLUGIN_H
#define DRIFTGATE_GPU_COLLECTIVE_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DRIFTGATE_COLLECTIVE_VERSION 1u
/** Name of the one exported symbol; its type is driftgate_collective_fn. */
#define DRIFTGATE_COLLECTIVE_SYMBOL "driftgate_collective_table"
#define DRIFTGATE_COLLECTIVE_ID_BYTES 128
#define DRIFTGATE_CAUSE_BYTES 2048

/** Why a call failed. */
enum {
  DRIFTGATE_FAULT_NONE = 0,
  DRIFTGATE_FAULT_DEADLINE = 1, /**< `rank` did not take part in time */
  DRIFTGATE_FAULT_LEFT = 2,     /**< a rank left: `error_code`, `rank` and `cause` are what it said */
  DRIFTGATE_FAULT_DIED = 3,     /**< the process of `rank` is gone */
  DRIFTGATE_FAULT_ENDED = 4,   /**< the launcher ends this process; `rank` is the first that was waited for */
  DRIFTGATE_FAULT_CALLS = 5,   /**< `rank` makes another call than this one */
  DRIFTGATE_FAULT_LIBRARY = 6, /**< the library failed, as `cause` says */
  DRIFTGATE_FAULT_ABSENT = 7   /**< the library cannot be used here, as `cause` says */
};

typedef struct driftgate_fault {
  uint32_t kind;
  uint32_t error_code; /**< schema::ErrorCode, of DRIFTGATE_FAULT_LEFT */
  int32_t rank;        /**< -1: none in particular */
  uint32_t reserved;
  char cause[DRIFTGATE_CAUSE_BYTES]; /**< terminated */
} driftgate_fault;

typedef struct driftgate_collective_config {
  uint32_t struct_size;
  uint32_t rank, size; /**< NCCL; MPI takes its own from the launcher */
  int32_t device;      /**< NCCL: index of this rank's device */
  uint32_t timeout_ms; /**< for the others to start */
  uint32_t reserved;
  unsigned char id[DRIFTGATE_COLLECTIVE_ID_BYTES]; /**< NCCL: what make_id gave at rank 0 */
} driftgate_collective_config;

/** A call returns 0, or the kind of the fault that it wrote. One call at a time; `leave` may come from
 * another thread while a call waits, which then ends. */
typedef struct driftgate_collective {
  uint32_t struct_size;
  uint32_t version; /**< DRIFTGATE_COLLECTIVE_VERSION */
  const char* name; /**< "mpi", "nccl" */
  /** Writes DRIFTGATE_COLLECTIVE_ID_BYTES; NULL where ranks need no id. */
  int32_t (*make_id)(unsigned char* id, driftgate_fault* fault);
  int32_t (*open)(const driftgate_collective_config* config, void** handle, driftgate_fault* fault);
  void (*place)(void* handle, uint32_t* rank, uint32_t* size);
  /** `all`: size*bytes, in rank order. */
  int32_t (*all_gather)(void* handle, uint32_t timeout_ms, const void* mine, uint64_t bytes, void* all,
                        driftgate_fault* fault);
  /** `all` is written at rank 0 only. */
  int32_t (*gather)(void* handle, uint32_t timeout_ms, const void* mine, uint64_t bytes, void* all,
                    driftgate_fault* fault);
  int32_t (*broadcast)(void* handle, uint32_t timeout_ms, void* data, uint64_t bytes, driftgate_fault* fault);
  /** Tells the other ranks, without waiting for them. */
  void (*leave)(void* handle, uint32_t error_code, int32_t rank, const char* cause);
  /** After `leave` this may end every process of the job with that exit code and not return. */
  void (*close)(void* handle, int32_t exit_code);
} driftgate_collective;

typedef const driftgate_collective* (*driftgate_collective_fn)(void);

#ifdef __cplusplus
}
#endif

#endif
