package check

// The programs for the device are written in PTX, which the driver compiles when
// they are loaded. They use nothing that a GPU of 2014 or a driver of 2020 does
// not have, and all their arguments are 64 bits wide.
//
// fill writes a pattern: the word at a distance is (low half + high half of its
// index in all that is tested) × factor, xor mask.
//
//	fill(base, words, first, factor, mask)
//
// check reads it again. It counts the words that are wrong in report[0], and puts
// the index of the first that it meets in report[1], and what was expected and
// found in the halves of report[2].
//
//	check(base, words, first, factor, mask, report)
//
// chain computes a value for each thread that depends on every step before it, in
// integers and in both precisions. Threads at the same place in their blocks
// compute the same.
//
//	chain(out, rounds, seed)
const kernels = `.address_size 64

.visible .entry berth_fill(
	.param .u64 fill_base,
	.param .u64 fill_words,
	.param .u64 fill_first,
	.param .u64 fill_factor,
	.param .u64 fill_mask
)
{
	.reg .pred %end;
	.reg .b32 %block, %size, %thread, %blocks, %low, %high, %want, %factor, %mask;
	.reg .b64 %base, %words, %first, %i, %step, %part, %index, %at;

	ld.param.u64 %base, [fill_base];
	ld.param.u64 %words, [fill_words];
	ld.param.u64 %first, [fill_first];
	ld.param.u64 %part, [fill_factor];
	cvt.u32.u64 %factor, %part;
	ld.param.u64 %part, [fill_mask];
	cvt.u32.u64 %mask, %part;
	cvta.to.global.u64 %base, %base;
	mov.u32 %block, %ctaid.x;
	mov.u32 %size, %ntid.x;
	mov.u32 %thread, %tid.x;
	mov.u32 %blocks, %nctaid.x;
	mul.wide.u32 %i, %block, %size;
	cvt.u64.u32 %part, %thread;
	add.u64 %i, %i, %part;
	mul.wide.u32 %step, %blocks, %size;
fill_next:
	setp.ge.u64 %end, %i, %words;
	@%end bra fill_end;
	add.u64 %index, %first, %i;
	cvt.u32.u64 %low, %index;
	shr.u64 %part, %index, 32;
	cvt.u32.u64 %high, %part;
	add.u32 %want, %low, %high;
	mul.lo.u32 %want, %want, %factor;
	xor.b32 %want, %want, %mask;
	shl.b64 %at, %i, 2;
	add.u64 %at, %base, %at;
	st.global.u32 [%at], %want;
	add.u64 %i, %i, %step;
	bra fill_next;
fill_end:
	ret;
}

.visible .entry berth_check(
	.param .u64 check_base,
	.param .u64 check_words,
	.param .u64 check_first,
	.param .u64 check_factor,
	.param .u64 check_mask,
	.param .u64 check_report
)
{
	.reg .pred %end, %same, %later;
	.reg .b32 %block, %size, %thread, %blocks, %low, %high, %want, %found, %factor, %mask;
	.reg .b64 %base, %words, %first, %report, %i, %step, %part, %index, %at, %one, %before;

	ld.param.u64 %base, [check_base];
	ld.param.u64 %words, [check_words];
	ld.param.u64 %first, [check_first];
	ld.param.u64 %part, [check_factor];
	cvt.u32.u64 %factor, %part;
	ld.param.u64 %part, [check_mask];
	cvt.u32.u64 %mask, %part;
	ld.param.u64 %report, [check_report];
	cvta.to.global.u64 %base, %base;
	cvta.to.global.u64 %report, %report;
	mov.u64 %one, 1;
	mov.u32 %block, %ctaid.x;
	mov.u32 %size, %ntid.x;
	mov.u32 %thread, %tid.x;
	mov.u32 %blocks, %nctaid.x;
	mul.wide.u32 %i, %block, %size;
	cvt.u64.u32 %part, %thread;
	add.u64 %i, %i, %part;
	mul.wide.u32 %step, %blocks, %size;
check_next:
	setp.ge.u64 %end, %i, %words;
	@%end bra check_end;
	add.u64 %index, %first, %i;
	cvt.u32.u64 %low, %index;
	shr.u64 %part, %index, 32;
	cvt.u32.u64 %high, %part;
	add.u32 %want, %low, %high;
	mul.lo.u32 %want, %want, %factor;
	xor.b32 %want, %want, %mask;
	shl.b64 %at, %i, 2;
	add.u64 %at, %base, %at;
	ld.global.u32 %found, [%at];
	add.u64 %i, %i, %step;
	setp.eq.u32 %same, %found, %want;
	@%same bra check_next;
	atom.global.add.u64 %before, [%report], %one;
	setp.ne.u64 %later, %before, 0;
	@%later bra check_next;
	st.global.u64 [%report+8], %index;
	st.global.u32 [%report+16], %want;
	st.global.u32 [%report+20], %found;
	bra check_next;
check_end:
	ret;
}

.visible .entry berth_chain(
	.param .u64 chain_out,
	.param .u64 chain_rounds,
	.param .u64 chain_seed
)
{
	.reg .pred %more;
	.reg .b32 %block, %size, %thread, %state, %spread, %factor, %add, %part;
	.reg .f32 %x, %share, %h, %unit;
	.reg .f64 %y, %share2, %h2;
	.reg .b64 %out, %rounds, %seed, %at, %bits;

	ld.param.u64 %out, [chain_out];
	ld.param.u64 %rounds, [chain_rounds];
	ld.param.u64 %seed, [chain_seed];
	cvta.to.global.u64 %out, %out;
	mov.u32 %block, %ctaid.x;
	mov.u32 %size, %ntid.x;
	mov.u32 %thread, %tid.x;
	mul.wide.u32 %at, %block, %size;
	cvt.u64.u32 %bits, %thread;
	add.u64 %at, %at, %bits;
	shl.b64 %at, %at, 2;
	add.u64 %out, %out, %at;
	mov.u32 %spread, 0x9E3779B1;
	mov.u32 %factor, 0x0019660D;
	mov.u32 %add, 0x3C6EF35F;
	mov.f32 %x, 0f00000000;
	mov.f32 %share, 0f3F400000;
	mov.f32 %unit, 0f33800000;
	mov.f64 %y, 0d0000000000000000;
	mov.f64 %share2, 0d3FE8000000000000;
	cvt.u32.u64 %state, %seed;
	mad.lo.u32 %state, %thread, %spread, %state;
chain_next:
	mad.lo.u32 %state, %state, %factor, %add;
	shr.u32 %part, %state, 13;
	xor.b32 %state, %state, %part;
	shr.u32 %part, %state, 8;
	cvt.rn.f32.u32 %h, %part;
	mul.rn.f32 %h, %h, %unit;
	fma.rn.f32 %x, %x, %share, %h;
	cvt.f64.f32 %h2, %h;
	fma.rn.f64 %y, %y, %share2, %h2;
	mov.b32 %part, %x;
	xor.b32 %state, %state, %part;
	sub.u64 %rounds, %rounds, 1;
	setp.ne.u64 %more, %rounds, 0;
	@%more bra chain_next;
	mov.b64 %bits, %y;
	cvt.u32.u64 %part, %bits;
	xor.b32 %state, %state, %part;
	shr.u64 %bits, %bits, 32;
	cvt.u32.u64 %part, %bits;
	xor.b32 %state, %state, %part;
	st.global.u32 [%out], %state;
	ret;
}
`

// headers begin the programs. The driver compiles the first one for every GPU that berth
// supports; the second is for a driver that no longer does.
var headers = []string{
	".version 6.0\n.target sm_50\n",
	".version 6.4\n.target sm_75\n",
}

// names are the names of the programs.
var names = []string{"berth_fill", "berth_check", "berth_chain"}

// program returns the text of all programs under a header.
func program(header string) string { return header + kernels }
