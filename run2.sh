cd .gpu/k; export PATH=$PATH:/usr/local/cuda/bin; nvcc -arch=sm_90 -std=c++17 -O2 -Iinc -Iinc/mini -o kb kb3.cu -lcuda 2>&1 | grep error; nvidia-smi --query-gpu=name,clocks.sm,clocks.max.sm --format=csv,noheader
t() { for v in o d2; do timeout 60 ./kb $v/$1.cubin verify_$2 $3 $4 3 $5 $6; done; }
t f32_32 all_f32_32_32 f32 f32; t f64 all_f64_64_64 f64 f64; t f32_16 all_f32_16_16 f16 f16; t f32_16 all_f32_16_16 f16 bf16; t f32_16 all_f32_16_32 f16 f32;  t f32_32 explain_f32_32_32 f32 f32; t f32_16 explain_f32_16_16 f16 f16
t f32_16 all_f32_16_16 f16 f16 2;  t f32_16 all_f32_16_16 f16 f16 4; t f32_32 all_f32_32_32 f32 f32 4;  t f32_16 all_f32_16_32 f16 f32 2;  t f64 all_f64_64_64 f64 f64 8; t f32_16 histograms_f32_16_16 f16 f16
t f32_8 all_f32_byte_byte f8 f8; t f32_8 all_f32_byte_16 f8 f16; t f32_8 all_f32_8_8 f8 f8; t f32_8 all_f32_8_32 f8 f32;
