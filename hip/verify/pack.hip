// Packs a range of a tensor whose neighbours along the last dimension lie far apart, such as a transposed one: writes its elements without gaps, in the order of their indices.
//
// J is the dimension with the smallest stride. A row has the elements with one index of J, and one index of each dimension before it: the last dimension, `inner` elements, `middles` times.
//   each block takes one tile after the other: neighbouring rows x neighbours along the last dimension (columns)
//       read it with neighbouring lanes in neighbouring rows, which are nearest in memory
//       write it with neighbouring lanes in neighbouring columns, which are adjacent in the packed tensor
// If words of W short elements are aligned on both sides, whole words are read and written: W x W elements are W words, which a thread transposes.
#include <hip/hip_runtime.h>
#include "verify/layout.h"

// A tile, counted in squares of W x W elements, and a thread's part of it: EACH squares of one row of squares.
template <u32 W_, u32 COLUMNS_LOG, u32 EACH_> struct Tile {
    enum { W = W_, EACH = EACH_, COLUMNS = 1 << COLUMNS_LOG, ROWS = THREADS * EACH / COLUMNS, COLUMN_STEP = THREADS / ROWS, ROW_STEP = THREADS / COLUMNS };
    static_assert(ROWS <= THREADS && ROW_STEP % W == 0, "a thread reads in one row, and writes rows that are whole squares apart");
    u64 row;    // its first, of all rows: the first of a square
    u64 index;  // of its first element
    u32 column; // its first
    __device__ Tile(const VerifyPack &p, u32 tile) {
        const u32 below = tile / p.across, middle = below % p.middles, down = below / p.middles;
        row = p.first_row / W * W + (u64)down * (ROWS * W);
        // Tiles that are read or written at the same time begin in different columns: otherwise strides that are powers of two would send all of them to one memory channel.
        column = ((tile + down) % p.across) * (COLUMNS * W);
        index = row * p.row + (u64)middle * p.inner + column;
    }
    // Whether all of it is to be packed.
    __device__ bool whole(const VerifyPack &p) const { return column + COLUMNS * W <= p.inner && index >= p.first && index + (ROWS * W - 1) * p.row + COLUMNS * W <= p.end; }
};

// The words of a square, each a part of a column, become parts of rows.
__device__ inline void exchange_halves(u32 &x, u32 &y) {
    const u32 low = (x & 0xffff) | y << 16;
    y = x >> 16 | (y & 0xffff0000u), x = low;
}
__device__ inline void exchange_bytes(u32 &x, u32 &y) {
    const u32 even = (x & 0x00ff00ffu) | (y & 0x00ff00ffu) << 8;
    y = (x >> 8 & 0x00ff00ffu) | (y & 0xff00ff00u), x = even;
}
template <typename X> __device__ inline void transpose(X (&)[1]) {}
__device__ inline void transpose(u32 (&x)[2]) { exchange_halves(x[0], x[1]); }
__device__ inline void transpose(u32 (&x)[4]) {
    exchange_halves(x[0], x[2]), exchange_halves(x[1], x[3]);
    exchange_bytes(x[0], x[1]), exchange_bytes(x[2], x[3]);
}

// A tile in shared memory, by columns of squares; each column has the first rows of all squares, then the second rows. There is padding between columns, so that neighbours begin in different banks.
template <typename X, class Tile> struct Shared { X x[Tile::COLUMNS][Tile::ROWS * Tile::W + (sizeof(X) < 4 ? 4 / sizeof(X) : 1)]; };

// X holds an element, or W of them; with 4 bits, one X in memory has two elements.
template <u32 BITS, bool WHOLE, typename X, class Tile> __device__ inline void read(const VerifyPack &p, const Tile &tile, Shared<X, Tile> &shared) {
    enum { W = Tile::W };
    const u32 row = threadIdx.x % Tile::ROWS, first = threadIdx.x / Tile::ROWS;
    const u32 columns = tile.row + row * W <= p.last_row ? p.inner - tile.column : 0;
    u64 left;
    i64 at = offset_of(p.from, tile.index + row * W * p.row + first * W, p.end, left);
    X x[Tile::EACH][W];
#pragma unroll
    for (u32 k = 0; k < Tile::EACH; k++, at += p.from.inner * (Tile::COLUMN_STEP * W)) {
        const bool there = WHOLE || (first + k * Tile::COLUMN_STEP) * W < columns;
#pragma unroll
        for (u32 w = 0; w < W; w++) {
            // The first of all elements is read in place of an absent one, so that there are no branches between the loads.
            const i64 from = there ? at + w * p.from.inner : p.from.offset;
            if (BITS == 4) x[k][w] = (X)(p.from.base[from >> 1] >> (4 * (from & 1)) & 0xf);
            else x[k][w] = *(const X *)(p.from.base + from * (i64)(BITS / 8));
        }
    }
#pragma unroll
    for (u32 k = 0; k < Tile::EACH; k++) {
        transpose(x[k]);
#pragma unroll
        for (u32 w = 0; w < W; w++) shared.x[first + k * Tile::COLUMN_STEP][w * Tile::ROWS + row] = x[k][w];
    }
}

template <u32 BITS, bool WHOLE, typename X, class Tile> __device__ inline void write(const VerifyPack &p, const Tile &tile, const Shared<X, Tile> &shared) {
    enum { W = Tile::W };
    const u32 column = threadIdx.x % Tile::COLUMNS, first = threadIdx.x / Tile::COLUMNS;
    const u64 index = tile.index + column * W;
    // Rows from `begin` to `end`: the range begins inside its first row, and ends inside its last.
    const u32 before = p.first_row > tile.row ? (u32)(p.first_row - tile.row) : 0, begin = before + (index + before * p.row < p.first);
    const u32 rows = p.last_row - tile.row < Tile::ROWS * W ? (u32)(p.last_row - tile.row) : Tile::ROWS * W, end = rows + (index + rows * p.row < p.end);
    const bool there = tile.column + column * W < p.inner;
    u64 to = index + first * p.row - p.first;
#pragma unroll
    for (u32 k = 0; k < Tile::EACH * W; k++, to += Tile::ROW_STEP * p.row) {
        const u32 row = first + k * Tile::ROW_STEP, slot = first % W * Tile::ROWS + first / W + k * (Tile::ROW_STEP / W);
        if (!WHOLE && !(there && row >= begin && row < end)) continue;
        if (BITS > 4) ((X *)p.to)[to / W] = shared.x[column][slot];
        // Every second lane stores two elements: the rows have an even number of them.
        else if (column % 2 == 0) p.to[to / 2] = (u8)(shared.x[column][slot] | shared.x[column + 1][slot] << 4);
    }
}

template <u32 BITS, typename X, class Tile> __device__ inline void pack_tiles(const VerifyPack &p, Shared<X, Tile> &shared) {
#pragma unroll 1
    for (u32 at = blockIdx.x; at < p.tiles; at += gridDim.x) {
        const Tile tile(p, at);
        const bool whole = tile.whole(p);
        if (whole) read<BITS, true>(p, tile, shared);
        else read<BITS, false>(p, tile, shared);
        __syncthreads();
        if (whole) write<BITS, true>(p, tile, shared);
        else write<BITS, false>(p, tile, shared);
        __syncthreads();
    }
}

template <typename X, class Square, class Narrow> union SharedTile {
    Shared<X, Square> square;
    Shared<X, Narrow> narrow;
};

// A tile has 64 columns or more, or 16 where the last dimension has few.
template <u32 BITS, typename X, u32 W> __device__ inline void pack(const VerifyPack &p) {
    enum { EACH = sizeof(X) == 8 ? 8 : 16 / W };
    typedef Tile<W, W == 1 ? 6 : 5, EACH> Square;
    typedef Tile<W, W == 1 ? 4 : W == 2 ? 3 : 2, EACH> Narrow;
    __shared__ SharedTile<X, Square, Narrow> shared;
    if (p.narrow) pack_tiles<BITS>(p, shared.narrow);
    else pack_tiles<BITS>(p, shared.square);
}

extern "C" __global__ void BOUNDS(256, 4) pack_4(VerifyPack p) { pack<4, u8, 1>(PARAMETER(p)); }
extern "C" __global__ void BOUNDS(256, 4) pack_8(VerifyPack p) { pack<8, u8, 1>(PARAMETER(p)); }
extern "C" __global__ void BOUNDS(256, 4) pack_16(VerifyPack p) { pack<16, u16, 1>(PARAMETER(p)); }
extern "C" __global__ void BOUNDS(256, 4) pack_32(VerifyPack p) { pack<32, u32, 1>(PARAMETER(p)); }
extern "C" __global__ void BOUNDS(256, 4) pack_64(VerifyPack p) { pack<64, u64, 1>(PARAMETER(p)); }
extern "C" __global__ void BOUNDS(256, 4) pack_words_8(VerifyPack p) { pack<8, u32, 4>(PARAMETER(p)); }
extern "C" __global__ void BOUNDS(256, 4) pack_words_16(VerifyPack p) { pack<16, u32, 2>(PARAMETER(p)); }
