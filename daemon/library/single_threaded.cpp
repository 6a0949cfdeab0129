// The C++ library asks this variable of glibc whether it may count references without atomic instructions. Debian's
// libyaml-cpp.a refers to it in a way that a shared library cannot link, so the library has a copy that always says no.
extern "C" {
extern __attribute__((visibility("hidden"))) char __libc_single_threaded;  // NOLINT
char __libc_single_threaded = 0;                                           // NOLINT
}
