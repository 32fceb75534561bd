package launch

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// parse sets flags that are written as --name=value, or as --name if the flag takes no value.
func parse(args []string) (r Request, err error) {
	for _, arg := range args {
		name, value, given := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		flags := Flags([]string{"best_fit", "pack"})
		flag := flags[slices.IndexFunc(flags, func(f Flag) bool { return f.Name == name })]
		if flag.Bare && !given {
			value = "true"
		}
		if err := flag.Set(&r, value); err != nil {
			return r, err
		}
	}
	return r, nil
}

func TestFlags(t *testing.T) {
	opt := cmp.AllowUnexported(gpu.Opt[int]{}, gpu.Opt[float64]{})
	for name, test := range map[string]struct {
		args []string
		want *Request // nil: it is refused
	}{
		"nothing": {nil, &Request{}},
		"everything": {
			[]string{
				"--gpus=2", "--slots=0", "--memory=8GiB", "--compute=30%", "--gpu=1", "--prefer=1", "--where=name~H200", "--policy=pack",
				"--name=my job", "--service=s", "--priority=-5", "--timeout=10m", "--enforce=mps", "--parkable",
			},
			&Request{
				Compute: 30,
				LeaseRequest: api.LeaseRequest{
					GPUs: 2, Slots: gpu.Some(0), Memory: 8192, GPU: "1", Prefer: "1", Where: "name~H200", Policy: "pack", Name: "my job", Service: "s",
					Priority: gpu.Some(-5), Timeout: gpu.Some(600.0), Enforce: "mps", Parkable: true,
				},
			},
		},
		"half a second":         {[]string{"--timeout=500ms"}, &Request{LeaseRequest: api.LeaseRequest{Timeout: gpu.Some(0.5)}}},
		"days":                  {[]string{"--timeout=1d", "--time=forever"}, &Request{LeaseRequest: api.LeaseRequest{Timeout: gpu.Some(86400.0)}}},
		"as long as it takes":   {[]string{"--timeout=forever"}, &Request{LeaseRequest: api.LeaseRequest{Timeout: gpu.Some(30 * 86400.0)}}},
		"a time without a unit": {[]string{"--timeout=30"}, nil},
		"memory without a unit": {[]string{"--memory=8"}, nil},
		"all memory":            {[]string{"--memory=all"}, &Request{LeaseRequest: api.LeaseRequest{AllMemory: true}}},
		"alone":                 {[]string{"--exclusive", "--id=mine"}, &Request{LeaseRequest: api.LeaseRequest{Exclusive: true, ID: "mine"}}},
		"a bare flag with no":   {[]string{"--parkable=false"}, &Request{}},
		"a third value":         {[]string{"--parkable=unshared"}, &Request{LeaseRequest: api.LeaseRequest{Parkable: true, Unshared: true}}},
		"a bare flag with both": {[]string{"--parkable=perhaps"}, nil},
		"no memory":             {[]string{"--memory=0"}, nil},
		"too little compute":    {[]string{"--compute=0%"}, nil},
		"too much compute":      {[]string{"--compute=101"}, nil},
		"no devices":            {[]string{"--gpus=0"}, nil},
		"an unknown policy":     {[]string{"--policy=best"}, nil},
		"an unknown rung":       {[]string{"--enforce=hope"}, nil},
		"a time that is none":   {[]string{"--timeout=-1"}, nil},
		"a time without sense":  {[]string{"--timeout=NaN"}, nil},
		"a number that is none": {[]string{"--priority=high"}, nil},
	} {
		got, err := parse(test.args)
		switch {
		case (err == nil) != (test.want != nil):
			t.Errorf("%s: %v", name, err)
		case err == nil:
			if diff := cmp.Diff(*test.want, got, opt); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}

func TestFinish(t *testing.T) {
	r := Request{}
	if err := r.Finish([]string{"python", "train.py"}); err != nil {
		t.Fatal(err)
	}
	if r.ID != "" || r.Called != "exec" {
		t.Errorf("its id is %q, and the daemon makes one of %q", r.ID, r.Called)
	}
	want := api.LeaseRequest{Name: "train.py", Binding: "process", Learned: true, Enforce: "auto", Timeout: gpu.Some(Forever.Seconds())}
	if diff := cmp.Diff(want, r.LeaseRequest, cmp.AllowUnexported(gpu.Opt[int]{}, gpu.Opt[float64]{})); diff != "" {
		t.Error(diff)
	}
	r = Request{Compute: 30, LeaseRequest: api.LeaseRequest{Memory: 1, Name: "x"}}
	if err := r.Finish([]string{"true"}); err != nil || r.Enforce != MPS || r.Learned || r.Name != "x" || r.Called != "x" {
		t.Errorf("a share of the multiprocessors makes %+v, %v", r, err)
	}
	r = Request{Compute: 30, LeaseRequest: api.LeaseRequest{Enforce: Framework}}
	if err := r.Finish([]string{"true"}); err == nil {
		t.Error("a framework was trusted with multiprocessors")
	}
}
