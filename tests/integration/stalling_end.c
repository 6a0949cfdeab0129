/* Preloaded into the ranks of a job: one of them is stopped in MPI_Finalize, after its last exchange. */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

int MPI_Finalize(void) {
  const char* rank = getenv("OMPI_COMM_WORLD_RANK");
  const char* stalling = getenv("STALLING_RANK");
  if (rank != NULL && stalling != NULL && strcmp(rank, stalling) == 0) raise(SIGSTOP);
  return PMPI_Finalize();
}
