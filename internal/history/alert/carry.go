package alert

// carry returns the alerts of each rule in the new version of a group, and the firing
// alerts whose rule is gone. Two rules match if they have the same kind, name and labels.
// If several match, the first goes with the first, the second with the second.
func carry(from *Group, active []Active, to *Group) (carried []Active, dropped []State) {
	carried = make([]Active, len(to.Rules))
	taken := make([]bool, len(from.Rules))
	for i := range to.Rules {
		carried[i] = Active{}
		for k := range from.Rules {
			if !taken[k] && from.Rules[k].same(&to.Rules[i]) {
				taken[k], carried[i] = true, active[k]
				break
			}
		}
	}
	for k, there := range taken {
		if !there {
			dropped = append(dropped, firing(active[k])...)
		}
	}
	return carried, dropped
}
