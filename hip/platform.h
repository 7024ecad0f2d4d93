// What the two platforms spell differently.
#pragma once
#include "formats.h"

// NVIDIA's GPUs fault if a load does not begin at a multiple of its size; AMD's load from any byte. Tests with AddressSanitizer use NVIDIA's variants, which otherwise run only on
// such a GPU.
#if defined(__CUDACC__) || defined(__SANITIZE_ADDRESS__)
constexpr bool LIKE_NVIDIA = true;
#else
constexpr bool LIKE_NVIDIA = false;
#endif

// Copies of a table in shared memory that all lanes read. On NVIDIA's GPUs each lane reads one of its own, in its own bank: no bank conflicts. On AMD's GPUs that much LDS would halve the occupancy. The
// AddressSanitizer build has enough copies to tell lanes apart.
#if defined(__CUDACC__)
constexpr u32 TABLE_COPIES = 32;
#else
constexpr u32 TABLE_COPIES = LIKE_NVIDIA ? 4 : 1;
#endif

// Reads global memory, at an address that compilers cannot tell from one of shared memory. A load that may be from either is slower, and on AMD's GPUs a wait for shared memory would then also
// wait for all outstanding loads. Nothing may write there meanwhile.
#if defined(__AMDGCN__)
#define GLOBAL_MEMORY __attribute__((address_space(1)))
#else
#define GLOBAL_MEMORY
#endif
template <typename T> __device__ inline T load(const u8 *at) {
#if defined(__CUDACC__)
    return __ldg((const T *)at);
#else
    typedef T Anywhere __attribute__((aligned(LIKE_NVIDIA ? sizeof(T) : 1)));
    return *(const GLOBAL_MEMORY Anywhere *)at;
#endif
}
// Reads a number that other blocks may be changing, and does so each time; nothing waits for it before it is used.
template <typename T> __device__ inline T load_again(const T *at) {
#if defined(__AMDGCN__)
    return __hip_atomic_load(at, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
#else
    return *(const volatile T *)at;
#endif
}
// 16 bytes that will not be needed again.
__device__ inline uint4 load16(const u8 *at) {
#if defined(__CUDACC__)
    return __ldcs((const uint4 *)at);
#elif defined(__AMDGCN__)
    typedef VECTOR(u32, 4) Words __attribute__((aligned(1)));
    const Words x = __builtin_nontemporal_load((const GLOBAL_MEMORY Words *)at);
    return make_uint4(x[0], x[1], x[2], x[3]);
#else
    if (LIKE_NVIDIA) return *(const uint4 *)at;
    const u64 low = load<u64>(at), high = load<u64>(at + 8);
    return make_uint4((u32)low, (u32)(low >> 32), (u32)high, (u32)(high >> 32));
#endif
}

#if defined(__CUDA_ARCH__)
// Addresses of shared memory as 32-bit numbers, which single instructions can compute.
__device__ inline u32 shared_offset(const void *at) { return (u32)__cvta_generic_to_shared(at); }
__device__ inline const void *shared_address(u32 offset) { return __cvta_shared_to_generic(offset); }
#endif

// An address of shared memory, in bytes.
#if defined(__CUDA_ARCH__)
typedef u32 SharedAddress;
// Computed once: the compiler would compute it again wherever it is needed, which takes long.
__device__ inline SharedAddress shared_address_of(const void *at) { u32 address; asm volatile("mov.u32 %0, %1;" : "=r"(address) : "r"(shared_offset(at))); return address; }
template <typename T> __device__ inline T &shared_at(SharedAddress at) { return *(T *)const_cast<void *>(shared_address(at)); }
#else
typedef u8 *SharedAddress;
__device__ inline SharedAddress shared_address_of(void *at) { return (u8 *)at; }
template <typename T> __device__ inline T &shared_at(SharedAddress at) { return *(T *)at; }
#endif
// Shared memory of `bytes` that a launch provides, since it is more than a kernel may declare on NVIDIA's GPUs; none on AMD's.
#if defined(__CUDACC__)
extern __shared__ uint4 dynamic_shared[];
#define SHARED_ON_NVIDIA(name, bytes) const SharedAddress name = shared_address_of(dynamic_shared)
#elif defined(__SANITIZE_ADDRESS__)
#define SHARED_ON_NVIDIA(name, bytes) __shared__ uint4 name##_memory[(bytes) / 16]; const SharedAddress name = shared_address_of(name##_memory)
#else
#define SHARED_ON_NVIDIA(name, bytes) const SharedAddress name = nullptr
#endif
// Copies BYTES (4, 8 or 16) from global to shared memory, both aligned to as many, without waiting: a thread's copies up to `end_copies` are a group, and `wait_for_copies` waits for all groups but the last
// PENDING. Only NVIDIA's GPUs do so without registers for outstanding copies; elsewhere the bytes are copied at once. The copies go through the L1 cache: past it (`.cg`) each half of a sector is requested separately, and all
// metrics of f32 reach only 0.88 of an H100's read ceiling instead of 0.95.
template <u32 BYTES> __device__ inline void copy_async(SharedAddress to, const u8 *from) {
#if defined(__CUDA_ARCH__)
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(BYTES) : "memory");
#else
    if (((u64)to | (u64)from) % BYTES) __builtin_trap(); // as NVIDIA's GPUs would
    for (u32 i = 0; i < BYTES; i += 4) *(u32 *)(to + i) = *(const u32 *)(from + i);
#endif
}
__device__ inline void end_copies() {
#if defined(__CUDA_ARCH__)
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <u32 PENDING> __device__ inline void wait_for_copies() {
#if defined(__CUDA_ARCH__)
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

// Marks a function that only a rare branch calls. If nvcc inlined it, the loop around the branch would get fewer registers and more instructions. On AMD's GPUs everything is inlined: a call needs a
// stack in scratch memory.
#if defined(__CUDACC__)
#define OUT_OF_LINE __noinline__
#else
#define OUT_OF_LINE
#endif

// The largest number of threads of a block. The second number asks NVIDIA's compiler for that many blocks per processor; AMD's compiler gives it
// another meaning.
#if defined(__CUDACC__)
#define BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)
#else
#define BOUNDS(threads, blocks) __launch_bounds__(threads)
#endif

// The largest number of vector registers on chips on which these and the accumulation registers are separate: with two wavefronts per SIMD, each has 128. What does not fit goes to accumulation
// registers, which nothing else uses.
#if defined(__AMDGCN__) && defined(__gfx908__)
#define VECTOR_REGISTERS(n) __attribute__((amdgpu_num_vgpr(n)))
#else
#define VECTOR_REGISTERS(n)
#endif

// A kernel's only parameter, at its original address. clang copies a struct to scratch memory when it loses track of it.
#if defined(__AMDGCN__)
#define PARAMETER(p) (*(const decltype(p) *)__builtin_amdgcn_kernarg_segment_ptr())
#else
#define PARAMETER(p) p
#endif

// A part of the parameter that is read here. clang would otherwise read it before all loops, and keep it in registers for branches that are hardly ever taken.
#if defined(__AMDGCN__)
template <typename T> __device__ inline const T &read_here(const T &part) {
    const __attribute__((address_space(4))) T *at = (const __attribute__((address_space(4))) T *)&part;
    asm volatile("" : "+s"(at));
    return *(const T *)at;
}
#else
template <typename T> __device__ inline const T &read_here(const T &part) { return part; }
#endif

// What blocks write for others, and for the host. All threads of a block call these functions:
// last_block   whether the block is the last one to arrive here; everything that all blocks wrote before is then visible to it
// show_host    what the block has written is visible to the host before what it writes afterwards
#if defined(__CUDA_ARCH__)
// One thread's fence also covers what a barrier has made visible to it. __threadfence() would also order the accesses of all threads among each other, and takes longer. A single block needs the barrier only: a fence takes about 1 us.
__device__ inline bool last_block(u64 &done, u32 &shared) {
    __syncthreads();
    if (gridDim.x == 1) return true;
    if (threadIdx.x == 0) {
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
        shared = atomicAdd(&done, 1ull) == gridDim.x - 1;
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
    }
    __syncthreads();
    return shared;
}
__device__ inline void show_host() {
    __syncthreads();
    if (threadIdx.x == 0) asm volatile("fence.acq_rel.sys;" ::: "memory");
    __syncthreads();
}
#else
#if defined(__AMDGCN__)
__device__ inline void release_to_device() { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); }
__device__ inline void acquire_from_device() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"); }
#else
__device__ inline void release_to_device() { __threadfence(); }
__device__ inline void acquire_from_device() { __threadfence(); }
#endif
// Each wavefront writes back what it has written: a barrier does not wait for its stores. Only the last block reads what others wrote.
__device__ inline bool last_block(u64 &done, u32 &shared) {
    release_to_device();
    __syncthreads();
    if (threadIdx.x == 0) shared = atomicAdd(&done, 1ull) == gridDim.x - 1;
    __syncthreads();
    const bool last = shared;
    if (last) acquire_from_device();
    return last;
}
__device__ inline void show_host() {
    __threadfence_system();
    __syncthreads();
}
#endif
