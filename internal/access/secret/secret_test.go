package secret

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestSecret(t *testing.T) {
	a, b := New(), New()
	if len(a) != Length || a == b || Of(a) == Of(b) {
		t.Errorf("secrets are %q and %q", a, b)
	}
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if h, err := Parse(abc); err != nil || h != Of("abc") || h.String() != abc {
		t.Errorf("%s is read as %s, %v", abc, h, err)
	}
	for _, bad := range []string{"", abc[1:], abc[2:], abc + "00", strings.Replace(abc, "b", "x", 1)} {
		if h, err := Parse(bad); err == nil {
			t.Errorf("%q is read as %s", bad, h)
		}
	}
}

func TestKept(t *testing.T) {
	a, b, why := Keep(Of("a")), Keep(Of("b")), errors.New("revoked")
	a.End(why)
	if context.Cause(a.Standing) != why || b.Standing.Err() != nil {
		t.Errorf("ended with %v, and the other with %v", context.Cause(a.Standing), b.Standing.Err())
	}
}
