package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/term"
	"github.com/berth-gpu/berth/internal/view"
)

// known returns the leases and the requests that the daemon knows; none if it
// does not answer.
func (a *app) known(cmd *cobra.Command) api.Leases {
	c, err := a.client()
	if err != nil {
		return api.Leases{}
	}
	defer c.Close()
	all, _ := c.Leases(cmd.Context())
	return all
}

// completeLease offers the ids of leases and of requests that wait.
func (a *app) completeLease(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var offers []string
	all := a.known(cmd)
	for _, l := range all.Leases {
		offers = append(offers, term.Clean(l.ID)+"\t"+view.Holder(l.Holder))
	}
	for _, w := range all.Waiting {
		offers = append(offers, term.Clean(w.ID)+"\twaits, "+view.Holder(w.Holder))
	}
	return offers, cobra.ShellCompDirectiveNoFileComp
}

// completeService offers the services that hold something or wait.
func (a *app) completeService(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all := a.known(cmd)
	var offers []string
	for _, l := range all.Leases {
		offers = append(offers, term.Clean(l.Holder.Service))
	}
	for _, w := range all.Waiting {
		offers = append(offers, term.Clean(w.Holder.Service))
	}
	slices.Sort(offers)
	offers = slices.DeleteFunc(slices.Compact(offers), func(s string) bool { return s == "" })
	return offers, cobra.ShellCompDirectiveNoFileComp
}

// gpuCompletion offers devices for --gpu.
func gpuCompletion(a *app, cmd *cobra.Command) {
	_ = cmd.RegisterFlagCompletionFunc("gpu", func(cmd *cobra.Command, _ []string, part string) ([]string, cobra.ShellCompDirective) {
		return a.completeGPU(cmd, nil, part)
	}) // fails only for a flag that is not there
}
