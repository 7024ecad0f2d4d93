/* HIP's functions over CUDA's runtime, for the kernels of hipverify on NVIDIA GPUs.
 *
 * One exported function finds the others by their HIP names, as dlsym would. CUDA's runtime is linked statically and the
 * driver's functions come through it, so that a program needs the driver alone, and starts without one.
 *
 * Error codes, copy kinds and the flags of streams, events and pinned memory have the same numbers in HIP and CUDA and pass
 * through. Device attributes do not. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#define NAME_AT 0
#define ARCH_AT 1160 /* gcnArchName in hipDeviceProp_tR0600 */
#define PROPS_BYTES 1472

typedef int hip; /* hipError_t */

/* A function of the driver, by way of the runtime: nothing links libcuda. */
static void *driver(const char *name) {
    void *function = NULL;
    enum cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
    cudaError_t error = cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found);
#else
    cudaError_t error = cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found);
#endif
    return error == cudaSuccess && found == cudaDriverEntryPointSuccess ? function : NULL;
}

/* Looks a driver function up once. Threads that race write the same pointer. */
#define DRIVER(type, name) \
    static type volatile cached; \
    type call = cached; \
    if (!call) { \
        cached = call = (type)driver(name); \
        if (!call) return cudaErrorNotSupported; \
    }

/* -- runtime and devices -- */

static hip nv_hipInit(unsigned flags) { return flags ? cudaErrorInvalidValue : cudaSuccess; }
static hip nv_hipDriverGetVersion(int *version) { return cudaDriverGetVersion(version); }
static hip nv_hipRuntimeGetVersion(int *version) { return cudaRuntimeGetVersion(version); }
static hip nv_hipGetDeviceCount(int *count) {
    cudaError_t error = cudaGetDeviceCount(count);
    if (error == cudaErrorInsufficientDriver) {
        /* Also what a machine without any driver answers: then its version is 0. */
        int version = 0;
        if (cudaDriverGetVersion(&version) == cudaSuccess && version == 0) error = cudaErrorNoDevice;
    }
    if (error != cudaSuccess) cudaGetLastError();
    return error;
}
static hip nv_hipGetDevice(int *device) { return cudaGetDevice(device); }
static hip nv_hipSetDevice(int device) { return cudaSetDevice(device); }
static hip nv_hipDeviceSynchronize(void) { return cudaDeviceSynchronize(); }
static hip nv_hipGetLastError(void) { return cudaGetLastError(); }
static hip nv_hipPeekAtLastError(void) { return cudaPeekAtLastError(); }

/* HIP's attribute numbers, the same from 5.2 to 7.0. */
static hip nv_hipDeviceGetAttribute(int *value, int attribute, int device) {
    static const struct { int hip, cuda; } map[] = {
        {0, cudaDevAttrEccEnabled},
        {2, cudaDevAttrAsyncEngineCount},
        {3, cudaDevAttrCanMapHostMemory},
        {5, cudaDevAttrClockRate},
        {8, cudaDevAttrConcurrentKernels},
        {16, cudaDevAttrIntegrated},
        {19, cudaDevAttrL2CacheSize},
        {23, cudaDevAttrComputeCapabilityMajor},
        {26, cudaDevAttrMaxBlockDimX},
        {29, cudaDevAttrMaxGridDimX},
        {56, cudaDevAttrMaxThreadsPerBlock},
        {57, cudaDevAttrMaxThreadsPerMultiProcessor},
        {59, cudaDevAttrGlobalMemoryBusWidth},
        {60, cudaDevAttrMemoryClockRate},
        {61, cudaDevAttrComputeCapabilityMinor},
        {63, cudaDevAttrMultiProcessorCount},
        {67, cudaDevAttrPciBusId},
        {68, cudaDevAttrPciDeviceId},
        {69, cudaDevAttrPciDomainId},
        {71, cudaDevAttrMaxRegistersPerBlock},
        {74, cudaDevAttrMaxSharedMemoryPerBlock},
        {83, cudaDevAttrTotalConstantMemory},
        {85, cudaDevAttrUnifiedAddressing},
        {87, cudaDevAttrWarpSize},
        {88, cudaDevAttrMemoryPoolsSupported},
    };
    for (size_t i = 0; i < sizeof map / sizeof *map; i++)
        if (map[i].hip == attribute) return cudaDeviceGetAttribute(value, (enum cudaDeviceAttr)map[i].cuda, device);
    return cudaErrorInvalidValue;
}

static hip nv_hipGetDevicePropertiesR0600(void *props, int device) {
    struct cudaDeviceProp cuda;
    cudaError_t error = cudaGetDeviceProperties(&cuda, device);
    if (error != cudaSuccess) return error;
    memset(props, 0, PROPS_BYTES);
    snprintf((char *)props + NAME_AT, 256, "%s", cuda.name);
    snprintf((char *)props + ARCH_AT, 256, "sm_%d%d", cuda.major, cuda.minor);
    return cudaSuccess;
}

static hip nv_hipDeviceGetPCIBusId(char *id, int length, int device) { return cudaDeviceGetPCIBusId(id, length, device); }
static hip nv_hipDeviceCanAccessPeer(int *can, int device, int peer) { return cudaDeviceCanAccessPeer(can, device, peer); }
static hip nv_hipDeviceEnablePeerAccess(int peer, unsigned flags) { return cudaDeviceEnablePeerAccess(peer, flags); }
static hip nv_hipDeviceDisablePeerAccess(int peer) { return cudaDeviceDisablePeerAccess(peer); }

/* CUDA's names with HIP's first letters; the caller copies the text before the thread asks again. */
static const char *nv_hipGetErrorName(hip error) {
    static _Thread_local char name[96];
    const char *cuda = error == cudaErrorMemoryAllocation ? "cudaErrorOutOfMemory" : cudaGetErrorName((cudaError_t)error);
    if (!cuda || strncmp(cuda, "cuda", 4) != 0) return cuda;
    snprintf(name, sizeof name, "hip%s", cuda + 4);
    return name;
}
static const char *nv_hipGetErrorString(hip error) { return cudaGetErrorString((cudaError_t)error); }

/* -- memory -- */

static hip nv_hipMalloc(void **ptr, size_t size) { return cudaMalloc(ptr, size); }
static hip nv_hipFree(void *ptr) { return cudaFree(ptr); }
static hip nv_hipMallocAsync(void **ptr, size_t size, cudaStream_t stream) { return cudaMallocAsync(ptr, size, stream); }
static hip nv_hipFreeAsync(void *ptr, cudaStream_t stream) { return cudaFreeAsync(ptr, stream); }
static hip nv_hipHostMalloc(void **ptr, size_t size, unsigned flags) { return cudaHostAlloc(ptr, size, flags & 7); }
static hip nv_hipHostFree(void *ptr) { return cudaFreeHost(ptr); }
static hip nv_hipHostGetDevicePointer(void **device, void *host, unsigned flags) {
    return cudaHostGetDevicePointer(device, host, flags);
}
static hip nv_hipHostRegister(void *ptr, size_t size, unsigned flags) { return cudaHostRegister(ptr, size, flags & 7); }
static hip nv_hipHostUnregister(void *ptr) { return cudaHostUnregister(ptr); }
static hip nv_hipMemGetInfo(size_t *free, size_t *total) { return cudaMemGetInfo(free, total); }
static hip nv_hipMemcpy(void *to, const void *from, size_t size, int kind) {
    return cudaMemcpy(to, from, size, (enum cudaMemcpyKind)kind);
}
static hip nv_hipMemcpyAsync(void *to, const void *from, size_t size, int kind, cudaStream_t stream) {
    return cudaMemcpyAsync(to, from, size, (enum cudaMemcpyKind)kind, stream);
}
static hip nv_hipMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t size) {
    return cudaMemcpyPeer(to, to_device, from, from_device, size);
}
static hip nv_hipMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t size, cudaStream_t stream) {
    return cudaMemcpyPeerAsync(to, to_device, from, from_device, size, stream);
}
static hip nv_hipMemset(void *to, int value, size_t size) { return cudaMemset(to, value, size); }
static hip nv_hipMemsetAsync(void *to, int value, size_t size, cudaStream_t stream) {
    return cudaMemsetAsync(to, value, size, stream);
}

/* -- streams, graphs, events -- */

static hip nv_hipStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) { return cudaStreamCreateWithFlags(stream, flags); }
static hip nv_hipStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
    return cudaStreamCreateWithPriority(stream, flags, priority);
}
static hip nv_hipStreamDestroy(cudaStream_t stream) { return cudaStreamDestroy(stream); }
static hip nv_hipStreamQuery(cudaStream_t stream) { return cudaStreamQuery(stream); }
static hip nv_hipStreamSynchronize(cudaStream_t stream) { return cudaStreamSynchronize(stream); }
static hip nv_hipStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    return cudaStreamWaitEvent(stream, event, flags);
}
static hip nv_hipStreamGetFlags(cudaStream_t stream, unsigned *flags) { return cudaStreamGetFlags(stream, flags); }
static hip nv_hipLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
    return cudaLaunchHostFunc(stream, function, data);
}
static hip nv_hipStreamBeginCapture(cudaStream_t stream, int mode) {
    return cudaStreamBeginCapture(stream, (enum cudaStreamCaptureMode)mode);
}
static hip nv_hipStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) { return cudaStreamEndCapture(stream, graph); }
static hip nv_hipStreamIsCapturing(cudaStream_t stream, int *status) {
    enum cudaStreamCaptureStatus now = cudaStreamCaptureStatusNone;
    cudaError_t error = cudaStreamIsCapturing(stream, &now);
    *status = now;
    return error;
}
static hip nv_hipGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    return cudaGraphGetNodes(graph, nodes, count);
}
static hip nv_hipGraphDestroy(cudaGraph_t graph) { return cudaGraphDestroy(graph); }
static hip nv_hipGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, cudaGraphNode_t *node, char *log, size_t size) {
    if (node) *node = NULL;
    if (log && size) *log = 0;
#if CUDART_VERSION >= 12000
    return cudaGraphInstantiate(exec, graph, 0);
#else
    return cudaGraphInstantiate(exec, graph, node, log, size);
#endif
}
static hip nv_hipGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) { return cudaGraphLaunch(exec, stream); }
static hip nv_hipGraphExecDestroy(cudaGraphExec_t exec) { return cudaGraphExecDestroy(exec); }
static hip nv_hipEventCreateWithFlags(cudaEvent_t *event, unsigned flags) { return cudaEventCreateWithFlags(event, flags); }
static hip nv_hipEventDestroy(cudaEvent_t event) { return cudaEventDestroy(event); }
static hip nv_hipEventRecord(cudaEvent_t event, cudaStream_t stream) { return cudaEventRecord(event, stream); }
static hip nv_hipEventSynchronize(cudaEvent_t event) { return cudaEventSynchronize(event); }
static hip nv_hipEventQuery(cudaEvent_t event) { return cudaEventQuery(event); }
static hip nv_hipEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t stop) { return cudaEventElapsedTime(ms, start, stop); }

/* -- modules: the driver's functions, whose error numbers are the runtime's -- */

static hip nv_hipModuleLoadData(CUmodule *module, const void *image) {
    typedef CUresult (*function)(CUmodule *, const void *);
    /* The driver wants a current context; the runtime makes one on its first real work. */
    cudaError_t error = cudaFree(0);
    if (error != cudaSuccess) return error;
    DRIVER(function, "cuModuleLoadData");
    return call(module, image);
}
static hip nv_hipModuleUnload(CUmodule module) {
    typedef CUresult (*function)(CUmodule);
    DRIVER(function, "cuModuleUnload");
    return call(module);
}
/* How much dynamic shared memory a launch may ask for, over what the function declares: HIP's launches need no leave for more than 48 KB. */
static hip allow_dynamic_shared(CUfunction f) {
    typedef CUresult (*get)(int *, CUfunction_attribute, CUfunction);
    typedef CUresult (*set)(CUfunction, CUfunction_attribute, int);
    int device, most, declared;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (error != cudaSuccess) return error;
    {
        DRIVER(get, "cuFuncGetAttribute");
        CUresult result = call(&declared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f);
        if (result != CUDA_SUCCESS) return result;
    }
    DRIVER(set, "cuFuncSetAttribute");
    return call(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most - declared);
}
static hip nv_hipModuleGetFunction(CUfunction *result, CUmodule module, const char *name) {
    typedef CUresult (*function)(CUfunction *, CUmodule, const char *);
    DRIVER(function, "cuModuleGetFunction");
    CUresult error = call(result, module, name);
    return error != CUDA_SUCCESS ? (hip)error : allow_dynamic_shared(*result);
}
static hip nv_hipModuleGetGlobal(void **ptr, size_t *bytes, CUmodule module, const char *name) {
    typedef CUresult (*function)(CUdeviceptr *, size_t *, CUmodule, const char *);
    CUdeviceptr address = 0;
    DRIVER(function, "cuModuleGetGlobal");
    CUresult error = call(&address, bytes, module, name);
    *ptr = (void *)address;
    return error;
}
static hip nv_hipModuleLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                    unsigned shared, cudaStream_t stream, void **params, void **extra) {
    typedef CUresult (*function)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **,
                                 void **);
    if (extra) return cudaErrorNotSupported; /* HIP's markers in it have other values */
    DRIVER(function, "cuLaunchKernel");
    return call(f, gx, gy, gz, bx, by, bz, shared, stream, params, NULL);
}
static hip nv_hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f, int block, size_t shared) {
    typedef CUresult (*function)(int *, CUfunction, int, size_t);
    DRIVER(function, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    return call(blocks, f, block, shared);
}
/* HIP's function attributes have the driver's numbers. */
static hip nv_hipFuncGetAttribute(int *value, int attribute, CUfunction f) {
    typedef CUresult (*function)(int *, CUfunction_attribute, CUfunction);
    DRIVER(function, "cuFuncGetAttribute");
    return call(value, (CUfunction_attribute)attribute, f);
}

#define ROW(name) {#name, (const void *)nv_##name}

/* The function of that name, or null. */
const void *hipverify_nv_symbol(const char *name) {
    static const struct { const char *name; const void *function; } table[] = {
        ROW(hipInit), ROW(hipDriverGetVersion), ROW(hipRuntimeGetVersion), ROW(hipGetDeviceCount), ROW(hipGetDevice),
        ROW(hipSetDevice), ROW(hipDeviceSynchronize), ROW(hipGetLastError), ROW(hipPeekAtLastError),
        ROW(hipDeviceGetAttribute), ROW(hipGetDevicePropertiesR0600), ROW(hipDeviceGetPCIBusId),
        ROW(hipDeviceCanAccessPeer), ROW(hipDeviceEnablePeerAccess), ROW(hipDeviceDisablePeerAccess),
        ROW(hipGetErrorName), ROW(hipGetErrorString),
        ROW(hipMalloc), ROW(hipFree), ROW(hipMallocAsync), ROW(hipFreeAsync), ROW(hipHostMalloc), ROW(hipHostFree),
        ROW(hipHostGetDevicePointer), ROW(hipHostRegister), ROW(hipHostUnregister), ROW(hipMemGetInfo), ROW(hipMemcpy),
        ROW(hipMemcpyAsync), ROW(hipMemcpyPeer), ROW(hipMemcpyPeerAsync), ROW(hipMemset), ROW(hipMemsetAsync),
        ROW(hipStreamCreateWithFlags), ROW(hipStreamCreateWithPriority), ROW(hipStreamDestroy), ROW(hipStreamQuery),
        ROW(hipStreamSynchronize), ROW(hipStreamWaitEvent), ROW(hipStreamGetFlags), ROW(hipLaunchHostFunc),
        ROW(hipStreamBeginCapture), ROW(hipStreamEndCapture), ROW(hipStreamIsCapturing), ROW(hipGraphGetNodes),
        ROW(hipGraphDestroy), ROW(hipGraphInstantiate), ROW(hipGraphLaunch), ROW(hipGraphExecDestroy),
        ROW(hipEventCreateWithFlags), ROW(hipEventDestroy), ROW(hipEventRecord), ROW(hipEventSynchronize), ROW(hipEventQuery),
        ROW(hipEventElapsedTime),
        ROW(hipModuleLoadData), ROW(hipModuleUnload), ROW(hipModuleGetFunction), ROW(hipModuleGetGlobal),
        ROW(hipModuleLaunchKernel), ROW(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor), ROW(hipFuncGetAttribute),
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0) return table[i].function;
    return NULL;
}
