// Packs a range of a tensor whose neighbours along the last dimension lie far apart, as those of a transposed one: its elements without gaps, in the order of their indices.
//
// Of all dimensions J has the smallest stride. A row has the elements of one index of J, and of one of each dimension before it.
//   each block, a tile at a time: neighbouring rows x neighbours along the last dimension (columns), 4,096 elements
//       read it, neighbouring lanes in neighbouring rows: nearest in memory
//       write it, neighbouring lanes in neighbouring columns: next to each other
#include <hip/hip_runtime.h>
#include "verify/layout.h"

enum { THREADS = 256, TILE_LOG = 12, EACH = (1 << TILE_LOG) / THREADS, MOST_COLUMNS = 64 };

template <u32 BITS> struct Stored;
template <> struct Stored<4> { typedef u8 Type; };
template <> struct Stored<8> { typedef u8 Type; };
template <> struct Stored<16> { typedef u16 Type; };
template <> struct Stored<32> { typedef u32 Type; };
template <> struct Stored<64> { typedef u64 Type; };

// Where a tile begins.
struct Corner {
    u64 row, index; // `index` of the element there
    u32 column;
    __device__ Corner(const VerifyPack &p, u32 tile, u32 rows) {
        const u32 below = tile / p.across, middle = below % p.middles, down = below / p.middles;
        row = p.first_row + (u64)down * rows;
        // Tiles that are read or written at the same time begin in different columns: strides that are powers of two would send them all to one channel of the memory.
        column = ((tile + down) % p.across) << p.columns_log;
        index = row * p.row + (u64)middle * p.inner + column;
    }
};

template <u32 BITS> __device__ inline void pack(const VerifyPack &p) {
    typedef typename Stored<BITS>::Type X;
    // So that neither columns nor rows begin in the same bank.
    enum { PAD = sizeof(X) < 4 ? 4 / sizeof(X) : 1 };
    __shared__ X shared[(1 << TILE_LOG) + MOST_COLUMNS * PAD];
    const u32 t = threadIdx.x, rows_log = TILE_LOG - p.columns_log, rows = 1u << rows_log, pitch = rows + PAD;
    const u32 row_read = t & (rows - 1), column_read = t >> rows_log, columns_a_step = THREADS >> rows_log;
    const u32 column_written = t & ((1u << p.columns_log) - 1), row_written = t >> p.columns_log, rows_a_step = THREADS >> p.columns_log;
    const i64 stride = p.from.inner;
#pragma unroll 1
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const Corner corner(p, tile, rows);
        const u64 read = corner.index + row_read * p.row + column_read;
        u64 left;
        const i64 from = offset_of(p.from, read, p.end, left);
        X x[EACH];
#pragma unroll
        for (u32 k = 0; k < EACH; k++) {
            const u32 next = k * columns_a_step;
            const bool there = corner.column + column_read + next < p.inner && read + next >= p.first && read + next < p.end;
            // An element that is there in place of one that is not: no branches between the loads.
            const i64 at = there ? from + next * stride : p.from.offset;
            if (BITS == 4) x[k] = (X)(p.from.base[at >> 1] >> (4 * (at & 1)) & 0xf);
            else x[k] = ((const X *)p.from.base)[at];
        }
#pragma unroll
        for (u32 k = 0; k < EACH; k++) shared[(column_read + k * columns_a_step) * pitch + row_read] = x[k];
        __syncthreads();
#pragma unroll
        for (u32 k = 0; k < EACH; k++) {
            const u32 row = row_written + k * rows_a_step;
            const u64 written = corner.index + row * p.row + column_written;
            if (corner.column + column_written >= p.inner || written < p.first || written >= p.end) continue;
            const X y = shared[column_written * pitch + row];
            if (BITS > 4) ((X *)p.to)[written - p.first] = y;
            // Of 4 bits every second lane stores two: rows have an even number.
            else if (column_written % 2 == 0) p.to[(written - p.first) / 2] = (u8)(y | shared[(column_written + 1) * pitch + row] << 4);
        }
        __syncthreads();
    }
}

#define PACK(bits) \
    extern "C" __global__ void BOUNDS(256, 4) pack_##bits(VerifyPack p) { pack<bits>(PARAMETER(p)); }

PACK(4)
PACK(8)
PACK(16)
PACK(32)
PACK(64)
