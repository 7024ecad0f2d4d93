// What the compiler's instrumentation and `hip/hip_runtime.h` call, handed on to the executor. One copy in every library of kernels,
// compiled without instrumentation.
#include <stddef.h>
#include <stdint.h>

namespace {
struct Index { unsigned x, y, z; };

// The thread that runs, as `Lane` in src/exec/mod.rs.
struct Lane {
    Index thread, block, threads, blocks;
    int wavefront;
    unsigned unused;
    int64_t steps; // left until the executor is asked
    uintptr_t stack, stack_bytes;
};

enum { READ, WRITE, ATOMIC };

// The executor's functions, as `Table` in src/exec/callbacks.rs.
struct Table {
    void (*access)(uintptr_t at, size_t size, size_t align, int kind, uintptr_t from);
    void (*pause)();
    unsigned long long (*across)(int operation, unsigned long long value, int argument, int width, uintptr_t site, const char *file, int line);
    void (*barrier)(const char *file, int line);
    void *(*shared)(const void *tag, size_t size, size_t align, const char *name);
    void (*trap)(const char *file, int line);
    void (*matrix)(const char *name, const void *a, const void *b, const void *c, void *d, const int *modifiers, uintptr_t site, const char *file, int line);
    void (*undefined)(const char *what, const char *file, int line);
};

// Outside of kernels, when a library is loaded: all memory is fine.
Lane idle = {{0, 0, 0}, {0, 0, 0}, {1, 1, 1}, {1, 1, 1}, 64, 0, INT64_MAX, 0, UINTPTR_MAX};
// Few bytes, which fit the thread-local memory that each process reserves for libraries loaded late: no call for its address.
__attribute__((tls_model("initial-exec"))) __thread Lane *lane = &idle;
Table table;

// Inlined, so that the address from which it is called is the kernel's.
__attribute__((always_inline)) inline void see(const volatile void *at, size_t size, size_t align, int kind) {
    if ((uintptr_t)at - lane->stack < lane->stack_bytes) return;
    table.access((uintptr_t)at, size, align, kind, (uintptr_t)__builtin_return_address(0));
}
} // namespace

#define HIDDEN __attribute__((visibility("hidden")))

extern "C" {
extern char __ehdr_start[] HIDDEN, _end[] HIDDEN;
}

// The calls by which the kernel came here, as one number: the same for two lanes that do the same. Kernels have frame pointers; their callers
// are outside of this library.
#define PATH path((const uintptr_t *)__builtin_frame_address(0))
static uintptr_t path(const uintptr_t *frame) {
    uintptr_t hash = 0;
    while ((uintptr_t)frame - lane->stack < lane->stack_bytes) {
        const uintptr_t offset = frame[1] - (uintptr_t)__ehdr_start;
        if (offset >= (uintptr_t)(_end - __ehdr_start)) break;
        hash = (hash ^ offset) * 0x100000001b3;
        frame = (const uintptr_t *)frame[0];
    }
    return hash;
}

extern "C" {

void standin_attach(const Table *with, uintptr_t *from, uintptr_t *to) {
    table = *with;
    *from = (uintptr_t)__ehdr_start;
    *to = (uintptr_t)_end;
}
Lane **standin_lane() { return &lane; }

HIDDEN Index standin_thread() { return lane->thread; }
HIDDEN Index standin_block() { return lane->block; }
HIDDEN Index standin_threads() { return lane->threads; }
HIDDEN Index standin_blocks() { return lane->blocks; }
HIDDEN int standin_wavefront() { return lane->wavefront; }
HIDDEN unsigned long long standin_across(int operation, unsigned long long value, int argument, int width, const char *file, int line) {
    return table.across(operation, value, argument, width, PATH, file, line);
}
HIDDEN void standin_barrier(const char *file, int line) { table.barrier(file, line); }
HIDDEN void *standin_shared(const void *tag, size_t size, size_t align, const char *name) { return table.shared(tag, size, align, name); }
HIDDEN void standin_trap(const char *file, int line) { table.trap(file, line); }
HIDDEN void standin_matrix(const char *name, const void *a, const void *b, const void *c, void *d, const int *modifiers, const char *file, int line) {
    table.matrix(name, a, b, c, d, modifiers, PATH, file, line);
}

// -fsanitize-coverage=trace-pc: every basic block.
HIDDEN void __sanitizer_cov_trace_pc() {
    if (--lane->steps < 0) table.pause();
}

// -fsanitize=thread: every access to memory.
HIDDEN void __tsan_init() {}
HIDDEN void __tsan_func_entry(void *) {}
HIDDEN void __tsan_func_exit(void) {}
#define PLAIN(n)                                                                  \
    HIDDEN void __tsan_read##n(void *at) { see(at, n, n, READ); }                 \
    HIDDEN void __tsan_write##n(void *at) { see(at, n, n, WRITE); }               \
    HIDDEN void __tsan_unaligned_read##n(void *at) { see(at, n, 1, READ); }       \
    HIDDEN void __tsan_unaligned_write##n(void *at) { see(at, n, 1, WRITE); }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)
HIDDEN void __tsan_read_range(void *at, size_t size) { see(at, size, 1, READ); }
HIDDEN void __tsan_write_range(void *at, size_t size) { see(at, size, 1, WRITE); }
HIDDEN void __tsan_vptr_update(void **at, void *) { see(at, sizeof(*at), sizeof(*at), WRITE); }
HIDDEN void *__tsan_memcpy(void *to, const void *from, size_t size) {
    see(from, size, 1, READ);
    see(to, size, 1, WRITE);
    return __builtin_memcpy(to, from, size);
}
HIDDEN void *__tsan_memmove(void *to, const void *from, size_t size) {
    see(from, size, 1, READ);
    see(to, size, 1, WRITE);
    return __builtin_memmove(to, from, size);
}
HIDDEN void *__tsan_memset(void *to, int value, size_t size) {
    see(to, size, 1, WRITE);
    return __builtin_memset(to, value, size);
}
HIDDEN void __tsan_atomic_thread_fence(int) {}
HIDDEN void __tsan_atomic_signal_fence(int) {}

#define UPDATE(bits, T, name)                                        \
    HIDDEN T __tsan_atomic##bits##_##name(volatile T *at, T x, int) { \
        see(at, sizeof(T), sizeof(T), ATOMIC);                       \
        return __atomic_##name(at, x, __ATOMIC_SEQ_CST);             \
    }
#define ATOMICS(bits, T)                                                                                        \
    UPDATE(bits, T, fetch_add)                                                                                  \
    UPDATE(bits, T, fetch_sub)                                                                                  \
    UPDATE(bits, T, fetch_and)                                                                                  \
    UPDATE(bits, T, fetch_or)                                                                                   \
    UPDATE(bits, T, fetch_xor)                                                                                  \
    HIDDEN T __tsan_atomic##bits##_exchange(volatile T *at, T x, int) {                                         \
        see(at, sizeof(T), sizeof(T), ATOMIC);                                                                  \
        return __atomic_exchange_n(at, x, __ATOMIC_SEQ_CST);                                                    \
    }                                                                                                           \
    HIDDEN T __tsan_atomic##bits##_load(const volatile T *at, int) {                                            \
        see(at, sizeof(T), sizeof(T), ATOMIC);                                                                  \
        return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                           \
    }                                                                                                           \
    HIDDEN void __tsan_atomic##bits##_store(volatile T *at, T x, int) {                                         \
        see(at, sizeof(T), sizeof(T), ATOMIC);                                                                  \
        __atomic_store_n(at, x, __ATOMIC_SEQ_CST);                                                              \
    }                                                                                                           \
    HIDDEN int __tsan_atomic##bits##_compare_exchange_strong(volatile T *at, T *expected, T x, int, int) {      \
        see(at, sizeof(T), sizeof(T), ATOMIC);                                                                  \
        return __atomic_compare_exchange_n(at, expected, x, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);         \
    }                                                                                                           \
    HIDDEN int __tsan_atomic##bits##_compare_exchange_weak(volatile T *at, T *expected, T x, int, int) {        \
        return __tsan_atomic##bits##_compare_exchange_strong(at, expected, x, 0, 0);                            \
    }                                                                                                           \
    HIDDEN T __tsan_atomic##bits##_compare_exchange_val(volatile T *at, T expected, T x, int, int) {            \
        __tsan_atomic##bits##_compare_exchange_strong(at, &expected, x, 0, 0);                                  \
        return expected;                                                                                        \
    }
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)

// -fsanitize=undefined, without a way to go on: what a handler is told begins with the place in the source text. The executor does not return.
struct Place {
    const char *file;
    unsigned line, column;
};
#define UNDEFINED(name, what) \
    HIDDEN void __ubsan_handle_##name(const Place *place) { table.undefined(what, place->file, place->line); }
UNDEFINED(add_overflow_abort, "an addition overflows")
UNDEFINED(sub_overflow_abort, "a subtraction overflows")
UNDEFINED(mul_overflow_abort, "a multiplication overflows")
UNDEFINED(negate_overflow_abort, "a negation overflows")
UNDEFINED(divrem_overflow_abort, "a division by zero, or one that overflows")
UNDEFINED(shift_out_of_bounds_abort, "a shift by a negative number, or by the width or more")
UNDEFINED(float_cast_overflow_abort, "a conversion of a number that the integer type cannot hold")
UNDEFINED(out_of_bounds_abort, "an index outside of its array")
UNDEFINED(pointer_overflow_abort, "an address that wraps around")
UNDEFINED(type_mismatch_v1_abort, "an access that is not aligned to its type, or outside of its object")
UNDEFINED(load_invalid_value_abort, "a bool or enum of another value than its type has")
UNDEFINED(invalid_builtin_abort, "a count of zeros in zero")
UNDEFINED(nonnull_arg_abort, "a null argument")
UNDEFINED(vla_bound_not_positive_abort, "an array of no elements")
UNDEFINED(builtin_unreachable, "a place that is never to be reached")
UNDEFINED(missing_return, "the end of a function that has to return a value")
}
