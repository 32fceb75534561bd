package work

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch/remote"
	"github.com/berth-gpu/berth/internal/batch/transport"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/kubectl"
	"github.com/berth-gpu/berth/internal/cli/programs"
)

// podFlags are the flags of a batch in the pods of a cluster.
type podFlags struct {
	kubernetes bool
	image      string
	berthImage string
	namespace  string
	context    string
	dryRun     bool
}

func (k *podFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&k.kubernetes, "kubernetes", false, "run the workers in pods of a cluster that has\nberth's driver, through your kubectl")
	flags.StringVar(&k.image, "image", "", "with --kubernetes: `IMAGE` of the workers")
	flags.StringVar(&k.namespace, "namespace", "", "with --kubernetes: `NAME` of the namespace of the\npods (default: default)")
	flags.StringVar(&k.context, "context", "", "with --kubernetes: `NAME` of the context of kubectl")
	flags.StringVar(&k.berthImage, "berth-image", "", "with --kubernetes: `IMAGE` that brings berth\n(default: that of this version)")
	flags.BoolVar(&k.dryRun, "dry-run", false, "with --kubernetes: print the manifests and do\nnothing")
}

// check refuses what cannot be meant.
func (k *podFlags) check(o *runOptions) error {
	given := k.image != "" || k.berthImage != "" || k.namespace != "" || k.context != "" || k.dryRun
	switch {
	case !k.kubernetes && given:
		return console.Usage("--image, --berth-image, --namespace, --context and --dry-run need --kubernetes")
	case !k.kubernetes:
		return nil
	case k.image == "":
		return console.Usage("--kubernetes needs --image: the image of the workers, as in --image registry.example/worker:1")
	case len(o.hosts) > 0 || o.sameFiles:
		return console.Usage("--kubernetes cannot be given with --hosts or --same-files: pods have the files of their image, and those of --files")
	case o.where != "" || o.isolation != "" || o.gpus != "all":
		return console.Usage("--where, --isolation and --gpus are not for --kubernetes: the cluster chooses the GPUs, and --workers says how many pods there are")
	}
	return nil
}

// in returns the namespace of the pods.
func (k *podFlags) in() string { return cmp.Or(k.namespace, "default") }

// job returns the Job of a run. Its name is that of the output: the same command again
// finds it.
func (k *podFlags) job(o *runOptions) (kubectl.Job, error) {
	name := rand.Text()[:10]
	if !o.piped() {
		path, err := filepath.Abs(o.output)
		if err != nil {
			return kubectl.Job{}, err
		}
		host, _ := os.Hostname() // a machine without a name has fewer runs
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%s", host, os.Getuid(), path))
		name = hex.EncodeToString(sum[:5])
	}
	image := cmp.Or(k.berthImage, "ghcr.io/berth-gpu/berth:"+cmp.Or(o.Version, "latest"))
	return kubectl.Job{
		Name: "berth-run-" + strings.ToLower(name), Image: k.image, Berth: image, Pods: max(o.workers, 1), Memory: gpu.MiB(o.memory), Service: o.service,
	}, nil
}

// print writes the manifests of a run.
func (k *podFlags) print(o *runOptions) error {
	job, err := k.job(o)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for _, each := range job.Objects("") {
		each["metadata"].(map[string]any)["namespace"] = k.in()
		e := yaml.NewEncoder(&text)
		e.SetIndent(2)
		text.WriteString("---\n")
		if err := e.Encode(each); err != nil {
			return err
		}
	}
	_, err = o.Out.Write(text.Bytes())
	return err
}

// open makes the Job of a run and opens the run. The returned function removes the Job.
func (k *podFlags) open(ctx context.Context, o *runOptions, with programs.BatchOptions) (*programs.Batch, func(), error) {
	cluster, err := kubectl.New(kubectl.Options{
		Program: o.Getenv("KUBECTL"), Context: k.context, Namespace: k.in(), Environ: o.Environ, Patience: podPatience,
	})
	if err != nil {
		return nil, nil, err
	}
	job, err := k.job(o)
	if err != nil {
		return nil, nil, err
	}
	options := programs.HostOptions{BatchOptions: with, Berth: o.Version, Silent: cmp.Or(o.silent.Duration(), defaultSilence)}
	options.Workers = 0 // each pod has its own
	if len(o.files) > 0 {
		folder, err := os.Getwd()
		if err != nil {
			return nil, nil, err
		}
		if options.Files, err = remote.PackFiles(folder, o.files); err != nil {
			return nil, nil, err
		}
	}
	told := map[string]bool{}
	options.Discover = func(ctx context.Context) ([]programs.Host, error) {
		pods, err := cluster.Workers(ctx, job.Name)
		if err != nil {
			return nil, err
		}
		var hosts []programs.Host
		for _, p := range pods {
			if p.Away == "" {
				hosts = append(hosts, programs.Host{Way: transport.Pod(p.Pod, cluster.Work(p.Pod))})
			} else if !told[p.Away] {
				told[p.Away] = true
				with.Say("pod %s: %s", p.Pod, p.Away)
			}
		}
		return hosts, nil
	}
	work, err := programs.OpenHosts(ctx, options)
	if err != nil {
		return nil, nil, err
	}
	found, err := cluster.BeginJob(ctx, job)
	if err != nil {
		return nil, nil, errors.Join(err, work.Close())
	}
	if found {
		with.Say("the Job %s of an earlier run is still there, and is used", job.Name)
	}
	return work, func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), podPatience)
		defer cancel()
		if err := cluster.EndJob(ending, job.Name); err != nil {
			with.Say("the Job %s stays, and ends by itself in some minutes: %v", job.Name, err)
		}
	}, nil
}

// podPatience is how long a call of kubectl may take.
const podPatience = 30 * time.Second
