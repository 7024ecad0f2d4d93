// Packs a range of a tensor whose neighbours along the last dimension lie far apart, as those of a transposed one: its elements without gaps, in the order of their indices.
//
// Of all dimensions J has the smallest stride. A row has the elements of one index of J, and of one of each dimension before it: the last dimension, `inner` elements, `middles` times.
//   each block, a tile at a time: neighbouring rows x neighbours along the last dimension (columns)
//       read it, neighbouring lanes in neighbouring rows: nearest in memory
//       write it, neighbouring lanes in neighbouring columns: next to each other
#include <hip/hip_runtime.h>
#include "verify/layout.h"

enum { THREADS = 256 };

// A tile, and what a thread has of it: EACH elements of a row when it reads, EACH of a column when it writes.
template <u32 COLUMNS_LOG, u32 EACH> struct Tile {
    enum { COLUMNS = 1 << COLUMNS_LOG, ROWS = THREADS * EACH / COLUMNS, COLUMN_STEP = THREADS / ROWS, ROW_STEP = THREADS / COLUMNS };
    static_assert(ROWS <= THREADS, "a thread reads in one row");
    u64 row;    // its first, of all rows
    u64 index;  // of its first element
    u32 column; // its first
    __device__ Tile(const VerifyPack &p, u32 tile) {
        const u32 below = tile / p.across, middle = below % p.middles, down = below / p.middles;
        row = p.first_row + (u64)down * ROWS;
        // Tiles that are read or written at the same time begin in different columns: strides that are powers of two would send them all to one channel of the memory.
        column = ((tile + down) % p.across) * COLUMNS;
        index = row * p.row + (u64)middle * p.inner + column;
    }
    // Whether all of it is to be packed.
    __device__ bool whole(const VerifyPack &p) const { return column + COLUMNS <= p.inner && index >= p.first && index + (ROWS - 1) * p.row + COLUMNS <= p.end; }
};

// A part of a row or of a column.
struct Part {
    u32 begin, end;
    __device__ bool has(u32 x) const { return x - begin < end - begin; }
};
__device__ inline u32 at_most(u64 x, u32 limit) { return x < limit ? (u32)x : limit; }

// The columns of a tile's row that are to be packed, given the index of its first element.
template <class Tile> __device__ inline Part columns(const VerifyPack &p, const Tile &tile, u64 index) {
    const u32 begin = index < p.first ? at_most(p.first - index, Tile::COLUMNS) : 0, end = index < p.end ? at_most(p.end - index, Tile::COLUMNS) : 0, inside = at_most(p.inner - tile.column, Tile::COLUMNS);
    const u32 least = end < inside ? end : inside;
    return {begin, least > begin ? least : begin};
}
// The rows of a tile's column, given the index of its first element. The range begins inside the first of all rows and ends inside the last.
template <class Tile> __device__ inline Part rows(const VerifyPack &p, const Tile &tile, u32 column, u64 index) {
    const u32 begin = index < p.first, before_last = at_most(p.last_row - tile.row, Tile::ROWS), end = before_last + (index + before_last * p.row < p.end);
    return {begin, tile.column + column < p.inner && end > begin ? end : begin};
}

// Columns of a tile in shared memory. Something lies between them, so that neither they nor rows begin in the same bank.
template <typename X, class Tile> struct Shared { X x[Tile::COLUMNS][Tile::ROWS + (sizeof(X) < 4 ? 4 / sizeof(X) : 1)]; };

// An element is stored as an X, but for 4 bits, of which a byte has two.
template <u32 BITS, typename X, class Tile, u32 EACH, bool WHOLE> __device__ inline void read(const VerifyPack &p, const Tile &tile, X (&x)[EACH]) {
    const u32 row = threadIdx.x % Tile::ROWS, first = threadIdx.x / Tile::ROWS;
    const u64 index = tile.index + row * p.row;
    const Part part = WHOLE ? Part{0, Tile::COLUMNS} : columns(p, tile, index);
    u64 left;
    i64 at = offset_of(p.from, index + first, p.end, left);
    const i64 step = p.from.inner * Tile::COLUMN_STEP;
#pragma unroll
    for (u32 k = 0; k < EACH; k++, at += step) {
        // The first of all elements in place of one that is not there: no branches between the loads.
        const i64 from = WHOLE || part.has(first + k * Tile::COLUMN_STEP) ? at : p.from.offset;
        if (BITS == 4) x[k] = (X)(p.from.base[from >> 1] >> (4 * (from & 1)) & 0xf);
        else x[k] = ((const X *)p.from.base)[from];
    }
}
template <u32 BITS, typename X, class Tile, u32 EACH, bool WHOLE> __device__ inline void write(const VerifyPack &p, const Tile &tile, const Shared<X, Tile> &shared) {
    const u32 column = threadIdx.x % Tile::COLUMNS, first = threadIdx.x / Tile::COLUMNS;
    const u64 index = tile.index + column;
    const Part part = WHOLE ? Part{0, Tile::ROWS} : rows(p, tile, column, index);
    u64 to = index + first * p.row - p.first;
#pragma unroll
    for (u32 k = 0; k < EACH; k++, to += Tile::ROW_STEP * p.row) {
        const u32 row = first + k * Tile::ROW_STEP;
        if (!WHOLE && !part.has(row)) continue;
        if (BITS > 4) ((X *)p.to)[to] = shared.x[column][row];
        // Every second lane stores two: rows have an even number.
        else if (column % 2 == 0) p.to[to / 2] = (u8)(shared.x[column][row] | shared.x[column + 1][row] << 4);
    }
}

template <u32 BITS, typename X, class Tile, u32 EACH> __device__ inline void pack_tiles(const VerifyPack &p, Shared<X, Tile> &shared) {
#pragma unroll 1
    for (u32 at = blockIdx.x; at < p.tiles; at += gridDim.x) {
        const Tile tile(p, at);
        const bool whole = tile.whole(p);
        X x[EACH];
        if (whole) read<BITS, X, Tile, EACH, true>(p, tile, x);
        else read<BITS, X, Tile, EACH, false>(p, tile, x);
#pragma unroll
        for (u32 k = 0; k < EACH; k++) shared.x[threadIdx.x / Tile::ROWS + k * Tile::COLUMN_STEP][threadIdx.x % Tile::ROWS] = x[k];
        __syncthreads();
        if (whole) write<BITS, X, Tile, EACH, true>(p, tile, shared);
        else write<BITS, X, Tile, EACH, false>(p, tile, shared);
        __syncthreads();
    }
}

template <typename X, u32 EACH> union SharedTile {
    Shared<X, Tile<6, EACH>> square;
    Shared<X, Tile<4, EACH>> narrow;
};

template <u32 BITS, typename X> __device__ inline void pack(const VerifyPack &p) {
    enum { EACH = BITS == 64 ? 8 : 16 };
    __shared__ SharedTile<X, EACH> shared;
    if (p.columns_log == 6) pack_tiles<BITS, X, Tile<6, EACH>, EACH>(p, shared.square);
    else pack_tiles<BITS, X, Tile<4, EACH>, EACH>(p, shared.narrow);
}

extern "C" __global__ void BOUNDS(256, 4) pack_4(VerifyPack p) { pack<4, u8>(PARAMETER(p)); }
extern "C" __global__ void BOUNDS(256, 4) pack_8(VerifyPack p) { pack<8, u8>(PARAMETER(p)); }
extern "C" __global__ void BOUNDS(256, 4) pack_16(VerifyPack p) { pack<16, u16>(PARAMETER(p)); }
extern "C" __global__ void BOUNDS(256, 4) pack_32(VerifyPack p) { pack<32, u32>(PARAMETER(p)); }
extern "C" __global__ void BOUNDS(256, 4) pack_64(VerifyPack p) { pack<64, u64>(PARAMETER(p)); }
