package check

import _ "embed"

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
//
//go:embed kernels.ptx
var kernels string

// headers begin the programs. The driver compiles the first one for every GPU that berth
// supports; the second is for a driver that no longer does.
var headers = []string{
	".version 6.0\n.target sm_50\n",
	".version 6.4\n.target sm_75\n",
}

// names are the names of the programs.
var names = []string{"berth_fill", "berth_check", "berth_chain"}
