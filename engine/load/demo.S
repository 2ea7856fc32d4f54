/* engine/load/demo.S - target/demo and draft/demo as bytes of the binary, so that it works from any directory.
 *
 * The assembler runs in the repository root. The dependency of this object on the demo files is in the Makefile, because
 * the preprocessor does not see .incbin. The layout of the tables is that of demo_file in demo.h. */

#define SKIFF_FILE(label, path)                                                                                        \
    .balign 64;                                                                                                        \
    label: .incbin path;                                                                                               \
    label##_end: .byte 0

    .section .rodata.demo, "a", %progbits
SKIFF_FILE(.Ltarget_template, "target/demo/chat_template.jinja")
SKIFF_FILE(.Ltarget_config, "target/demo/config.json")
SKIFF_FILE(.Ltarget_generation, "target/demo/generation_config.json")
SKIFF_FILE(.Ltarget_shard1, "target/demo/model-00001-of-00002.safetensors")
SKIFF_FILE(.Ltarget_shard2, "target/demo/model-00002-of-00002.safetensors")
SKIFF_FILE(.Ltarget_index, "target/demo/model.safetensors.index.json")
SKIFF_FILE(.Ltarget_tokenizer, "target/demo/tokenizer.json")
SKIFF_FILE(.Ltarget_tokenizer_config, "target/demo/tokenizer_config.json")
SKIFF_FILE(.Ldraft_config, "draft/demo/config.json")
SKIFF_FILE(.Ldraft_weights, "draft/demo/model.safetensors")

#define SKIFF_NAME(label, text) label: .asciz text
SKIFF_NAME(.Ln_template, "chat_template.jinja")
SKIFF_NAME(.Ln_config, "config.json")
SKIFF_NAME(.Ln_generation, "generation_config.json")
SKIFF_NAME(.Ln_shard1, "model-00001-of-00002.safetensors")
SKIFF_NAME(.Ln_shard2, "model-00002-of-00002.safetensors")
SKIFF_NAME(.Ln_weights, "model.safetensors")
SKIFF_NAME(.Ln_index, "model.safetensors.index.json")
SKIFF_NAME(.Ln_tokenizer, "tokenizer.json")
SKIFF_NAME(.Ln_tokenizer_config, "tokenizer_config.json")

/* Addresses need relocation in a position independent binary: read-only after the loader is done. */
#define SKIFF_ENTRY(name, label) .8byte name, label, label##_end

    .section .data.rel.ro.demo, "aw", %progbits
    .balign 8
    .globl demo_target_files
    .hidden demo_target_files
    .type demo_target_files, %object
demo_target_files:
SKIFF_ENTRY(.Ln_template, .Ltarget_template)
SKIFF_ENTRY(.Ln_config, .Ltarget_config)
SKIFF_ENTRY(.Ln_generation, .Ltarget_generation)
SKIFF_ENTRY(.Ln_shard1, .Ltarget_shard1)
SKIFF_ENTRY(.Ln_shard2, .Ltarget_shard2)
SKIFF_ENTRY(.Ln_index, .Ltarget_index)
SKIFF_ENTRY(.Ln_tokenizer, .Ltarget_tokenizer)
SKIFF_ENTRY(.Ln_tokenizer_config, .Ltarget_tokenizer_config)
    .8byte 0, 0, 0
    .size demo_target_files, . - demo_target_files

    .globl demo_draft_files
    .hidden demo_draft_files
    .type demo_draft_files, %object
demo_draft_files:
SKIFF_ENTRY(.Ln_config, .Ldraft_config)
SKIFF_ENTRY(.Ln_weights, .Ldraft_weights)
    .8byte 0, 0, 0
    .size demo_draft_files, . - demo_draft_files

    .section .note.GNU-stack, "", %progbits
