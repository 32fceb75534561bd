package trace

import (
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

func TestRead(t *testing.T) {
	got, err := Read(strings.NewReader("power_w, t_s,what,temp_c,util\n80.5,0,x,37,\n,0.1,y,38,12\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Point{
		{Temperature: gpu.Some[gpu.Celsius](37), Power: gpu.Some[gpu.Watts](80.5)},
		{At: 100 * time.Millisecond, Temperature: gpu.Some[gpu.Celsius](38)},
	}
	if !reflect.DeepEqual(got.Points, want) || got.Gaps != nil {
		t.Errorf("read %+v, want %+v", got, want)
	}
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"nothing":           {"", "it is empty"},
		"no power":          {"t_s,temp_c\n", "line 1: there is no column power_w"},
		"a column twice":    {"t_s,temp_c,power_w,t_s\n", "line 1: the column t_s is there twice"},
		"a word":            {"t_s,temp_c,power_w\n0,hot,80\n", `line 2: temp_c: "hot" is not a number`},
		"not a number":      {"t_s,temp_c,power_w\n0,NaN,80\n", `line 2: temp_c: "NaN" is not a number`},
		"infinity":          {"t_s,temp_c,power_w\n0,40,+Inf\n", "line 2: power_w"},
		"no time":           {"t_s,temp_c,power_w\n,40,80\n", "line 2: t_s"},
		"a time far off":    {"t_s,temp_c,power_w\n1e12,40,80\n", "line 2: t_s"},
		"a time going back": {"t_s,temp_c,power_w\n5,40,80\n6,40,80\n4.5,41,80\n", "line 4: the time goes back from 6.000 s to 4.500 s; cut the file there, or sort it by t_s"},
		"a short line":      {"t_s,temp_c,power_w\n5,40\n", "line 2"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(strings.NewReader(c.text))
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("it says %v, want %q", err, c.says)
			}
		})
	}
}

func TestGaps(t *testing.T) {
	var b strings.Builder
	b.WriteString("t_s,temp_c,power_w\n")
	for _, at := range []string{"0", "1", "2", "4", "64", "65"} {
		b.WriteString(at + ",40,80\n")
	}
	got, err := Read(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	want := []Gap{{Line: 6, At: 4 * time.Second, For: time.Minute}}
	if len(got.Points) != 6 || !reflect.DeepEqual(got.Gaps, want) {
		t.Errorf("gaps %v, want %v", got.Gaps, want)
	}
	if s := got.Gaps[0].String(); s != "line 6: nothing was recorded for 1m0s" {
		t.Error(s)
	}
}

func TestEvery(t *testing.T) {
	var tr Trace
	for i := range 40 {
		tr.Points = append(tr.Points, Point{At: time.Duration(i)*100*time.Millisecond - time.Duration(i%3)*time.Millisecond})
	}
	if got := tr.Every(time.Second); len(got) != 4 {
		t.Errorf("%d points of four seconds: %v", len(got), got)
	}
}

func TestRecordingInTheRepository(t *testing.T) {
	f, err := os.Open("../../data/h200-varied.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := Read(f)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Points) < 2700 || len(got.Gaps) > 0 {
		t.Errorf("%d points, gaps %v", len(got.Points), got.Gaps)
	}
}

// Whatever is read is in the order of time, and its numbers are numbers.
func FuzzRead(f *testing.F) {
	f.Add("t_s,temp_c,power_w\n0,40,80\n1,41,\n")
	f.Add("t_s,temp_c,power_w,throttle,energy_j\n0,40,80,\"a,b\",1e3\n")
	f.Add("\ufefft_s,temp_c,power_w\n-1,0,255\n")
	f.Fuzz(func(t *testing.T, text string) {
		read, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		for i, p := range read.Points {
			if i > 0 && p.At < read.Points[i-1].At || math.IsNaN(float64(p.Temperature.Or(0))) {
				t.Fatalf("point %d is %+v", i, p)
			}
		}
	})
}
