package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// attack is one way to gain something.
type attack struct {
	name string
	what string
	run  func(context.Context, *arena) (verdict, error)
}

// attacks returns every attack, in the order in which they are played: the longest is first,
// so that the short version does not wait for it alone at the end.
func attacks() []attack {
	return []attack{
		{"front", "reach a service of others through the front, fill or stop the front, and be the front", throughTheFront},
		{"lostwaiter", "end the daemon by withdrawing requests and asking again under the same id", lostWaiter},
		{"takeover", "become administrator over TCP by hiding who owns the connection, or from a namespace", takeover},
		{"strangers", "end, renew, bind, trim or park leases of another user over TCP", strangers},
		{"private", "use the daemon that another user runs privately, over its TCP port", private},
		{"tokens", "do more with a token than it gives, use a revoked one, guess one, and keep others waiting meanwhile", tokenTricks},
		{"secrets", "read commands, paths and pids of root over both doors", secrets},
		{"longtexts", "fill memory, events and the log with texts of megabytes", longTexts},
		{"borrowed", "have root end, stop or park a process of root below the own lease", borrowed},
		{"anyscope", "end what is in a control group of the system, by the scope of a lease", anyScope},
		{"namespaces", "bind leases to processes outside the own PID namespace", namespaces},
		{"lookups", "hang the daemon in lookups of user names", lookups},
		{"folder", "have root's berth run write through links in a prepared OUTPUT.berth", folder},
		{"stalledlog", "stop the daemon by log lines that nobody reads", stalledLog},
		{"halfsent", "keep half-sent requests and streams open", halfSent},
		{"longqueue", "slow everybody down with a long queue of requests of falling size", longQueue},
		{"displace", "push root's warning out of the events", displace},
		{"hooks", "keep a slow hook from root's warning", slowHook},
		{"expensive", "stop alerts, the past and the daemon by queries, and keep the own requests waiting", expensive},
		{"throughput", "write the throughput metrics", throughput},
		{"places", "take every place for batches", places},
		{"words", "put control characters and long texts into warnings", words},
		{"learned", "make the daemon forget what it learned from root's runs", learned},
		{"mps", "have root run MPS commands in a folder of the attacker", mpsClient},
		{"unwritable", "pile up goroutines while the disk takes no writes", unwritable},
		{"settings", "have root's daemon run commands from a berth.yaml that root left open", settings},
		{"jobs", "see, change and repeat a job of root, and be its minder", jobsOfOthers},
		{"jobtricks", "reach root's files by the folder, log, environment and command of a job", jobTricks},
		{"jobrights", "keep set-user-id programs of a job running, and forge the exit code of a job by its minder", jobRights},
		{"jobdoors", "submit jobs by token, over TCP and from namespaces", jobDoors},
		{"manyjobs", "fill the daemon with tasks and with a log of a gigabyte", manyJobs},
		{"expansions", "take memory by jobs, plans and wrong bodies that expand, and get long answers", expansions},
		{"launchers", "slow everybody down by launchers that end before their workers", deadLaunchers},
		{"deadowner", "slow everybody down by leases on eight devices of a process that has ended", deadOwner},
		{"parts", "slow everybody down by the parts of a launcher that is paced", manyParts},
		{"parked", "slow everybody down by parked leases", manyParked},
		{"impostor", "answer in place of a daemon that restarts, and give minders of root an order", impostor},
		{"belowuser", "have a service ended for memory that a program of that name below user@ takes", belowUser},
		{"nextlog", "have root's next job write its log through a link", nextLog},
		{"port", "keep the daemon down by its port", takenPort},
		{"elsewhere", "shut other machines out by idle connections", elsewhere},
		{"manyfiles", "make GPUs unavailable by open files", manyFiles},
		{"leftovers", "leave temporary files in the state folder", leftovers},
	}
}

// choose returns the attacks with these names, or all if there are no names.
func choose(names string) ([]attack, error) {
	all := attacks()
	if names == "" {
		return all, nil
	}
	var chosen []attack
	for name := range strings.SplitSeq(names, ",") {
		at := slices.IndexFunc(all, func(a attack) bool { return a.name == name })
		if at < 0 {
			return nil, fmt.Errorf("unknown attack %q; -list lists the attacks", name)
		}
		chosen = append(chosen, all[at])
	}
	return chosen, nil
}
