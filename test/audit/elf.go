package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// hardened checks that the stack and the data of a binary cannot be run, that no
// page can be both written and run, and that the linker's tables are read-only
// once it runs. A binary that is not static has to be position-independent, too,
// and its C code guarded.
func hardened(path string) (string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return "", fmt.Errorf("%w: run make build first", err)
	}
	defer f.Close()
	wants := []string{}
	want := func(is bool, what string) {
		if !is {
			wants = append(wants, what)
		}
	}
	var stack, relro, writable bool
	for _, p := range f.Progs {
		switch p.Type {
		case elf.PT_GNU_STACK:
			stack = p.Flags&elf.PF_X == 0
		case elf.PT_GNU_RELRO:
			relro = true
		case elf.PT_LOAD:
			writable = writable || p.Flags&(elf.PF_W|elf.PF_X) == elf.PF_W|elf.PF_X
		}
	}
	want(stack, "its stack can be run")
	want(!writable, "it has pages that can be both written and run")
	want(relro, "it has no read-only tables (RELRO)")
	kind := "static"
	if f.Section(".interp") != nil {
		kind = "position-independent, C code guarded"
		want(f.Type == elf.ET_DYN, "it is not position-independent")
		want(imports(f, "__stack_chk_fail"), "its C code does not guard the stack")
		want(imports(f, "_chk"), "its C code does not check bounds (_FORTIFY_SOURCE)")
	}
	if len(wants) > 0 {
		return "", errors.New(strings.Join(wants, ", "))
	}
	return kind + ", tables read-only (RELRO), nothing is both written and run", nil
}

// imports reports whether a binary calls a function of the C library whose name
// ends so.
func imports(f *elf.File, ending string) bool {
	symbols, err := f.ImportedSymbols()
	return err == nil && slices.ContainsFunc(symbols, func(s elf.ImportedSymbol) bool { return strings.HasSuffix(s.Name, ending) })
}
