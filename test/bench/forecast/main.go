// Command forecast judges the model of temperature on recordings of GPUs, and
// on simulated consumer cards.
//
// It feeds a recording to the model as the monitor does, and asks it every
// second after two minutes: how warm will it be in 5, 10 and 30 s, given the
// power that followed, and without it. Beside it stand "it stays as it is" and
// a straight line.
//
//	make bench-forecast [TRACE=FILE]
//
// A recording is CSV with a header: t_s, temp_c, power_w, others ignored.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/berth-gpu/berth/test/bench/figure"
	"github.com/berth-gpu/berth/test/bench/forecast/trace"
)

func main() {
	every := flag.Duration("every", time.Second, "how often the model gets a sample; the daemon takes one a second")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: forecast [-every 100ms] [FILE.csv ...]\n\nWithout a file it judges test/bench/data and the simulated cards.")
		flag.PrintDefaults()
	}
	flag.Parse()
	good, err := run(flag.Args(), *every)
	if err != nil {
		fmt.Fprintln(os.Stderr, "forecast:", err)
		os.Exit(2)
	}
	if !good {
		os.Exit(1)
	}
}

func run(files []string, every time.Duration) (good bool, err error) {
	commit, _ := exec.Command("git", "describe", "--always", "--dirty").Output() // for the record only
	fmt.Printf("commit %s, %d CPUs, %s, a sample every %v\n", strings.TrimSpace(string(commit)), runtime.NumCPU(), runtime.Version(), every)
	simulated := len(files) == 0
	if simulated {
		if files, err = filepath.Glob("test/bench/data/*.csv"); err != nil || len(files) == 0 {
			return false, fmt.Errorf("find test/bench/data/*.csv: there is none; run it in the root of the repository, or name a file")
		}
	}
	good = true
	for _, file := range files {
		held, err := one(file, every)
		if err != nil {
			return false, fmt.Errorf("%s: %w", file, err)
		}
		good = good && held
	}
	if simulated {
		held, err := simulate()
		if err != nil {
			return false, err
		}
		good = good && held
	}
	return good, nil
}

// one judges a recording.
func one(file string, every time.Duration) (good bool, err error) {
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	t, err := trace.Read(f)
	if err != nil {
		return false, err
	}
	points := t.Every(every)
	if len(points) == 0 || points[len(points)-1].At-points[0].At < learning+distances[len(distances)-1] {
		return false, fmt.Errorf("it is too short: a model learns for %v, and is asked %v ahead", learning, distances[len(distances)-1])
	}
	length := points[len(points)-1].At - points[0].At
	fmt.Printf("\n== %s: %d samples in %v\n", file, len(points), length.Round(time.Second))
	for _, g := range t.Gaps {
		fmt.Println("      " + g.String())
	}
	rows := judge(points)
	fmt.Println("      mean error in °C                                            90 % interval held")
	fmt.Println("ahead  forecasts  power known  at present  it stays  a line      power known  at present")
	for _, r := range rows {
		figure.Say(fmt.Sprintf("forecast, %v ahead, %s", r.ahead, filepath.Base(file)), r.present, "°C", figure.Less)
		fmt.Printf("%5v  %9d  %11.2f  %10.2f  %8.2f  %6.2f      %11s  %10s\n", r.ahead, r.forecasts, r.known, r.present, r.stays, r.line, percent(r.knownHeld), percent(r.presentHeld))
	}
	return report(verdicts(rows)), nil
}

// simulate judges the time to a threshold on simulated cards.
func simulate() (good bool, err error) {
	fmt.Println("\n== simulated consumer cards under constant load: when they will show a temperature, from half-way on")
	var all []verdict
	for _, c := range cards {
		r, err := c.run()
		if err != nil {
			return false, err
		}
		found := fmt.Sprintf("shown after %v, at worst %.1f s off (%s), after %v", r.after, r.worst.Seconds(), percent(r.share()), r.at)
		all = append(all, verdict{c.String(), r.share() <= reachWithin, found})
	}
	return report(all), nil
}

func report(all []verdict) (good bool) {
	good = true
	for _, v := range all {
		word := "PASS"
		if !v.holds {
			word, good = "FAIL", false
		}
		fmt.Printf("%s  %s (%s)\n", word, v.claim, v.found)
	}
	return good
}

func celsius(v float64) string { return fmt.Sprintf("%.2f °C", v) }
func percent(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }
