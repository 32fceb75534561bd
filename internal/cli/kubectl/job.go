package kubectl

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/berth-gpu/berth/gpu"
)

// Job is a Job whose pods work for a runner, each with a share of a GPU.
type Job struct {
	Name    string
	Image   string  // of the workers
	Berth   string  // image that brings berth
	Pods    int     // how many
	Memory  gpu.MiB // share of each; 0 for a whole GPU
	Service string  // in whose name; empty for none
}

const (
	// awaitRunner is how long a pod waits for a runner before it ends, in seconds.
	awaitRunner = 120
	// keepJob is how long a Job is kept whose pods have ended, in seconds.
	keepJob = 60
	// mostFailures is how many pods of a Job may fail before it does.
	mostFailures = 1000

	// home is where pods have berth, and the files of workers.
	home     = "/berth"
	specNote = "berth.dev/run"
)

// object is an object of Kubernetes.
type object = map[string]any

// Objects returns the Job and its ResourceClaimTemplate. The Job owns the template: what
// removes the Job removes it.
func (j Job) Objects(jobUID string) []object {
	labels := object{"app.kubernetes.io/name": "berth-run", "app.kubernetes.io/managed-by": "berth", "berth.dev/run": j.Name}
	exactly := object{"deviceClassName": "gpu.berth.dev"}
	if j.Memory > 0 {
		exactly["capacity"] = object{"requests": object{"memory": fmt.Sprintf("%dMi", j.Memory)}}
	}
	devices := object{"requests": []any{object{"name": "gpu", "exactly": exactly}}}
	if j.Service != "" {
		devices["config"] = []any{object{"opaque": object{"driver": "gpu.berth.dev", "parameters": object{
			"apiVersion": "gpu.berth.dev/v1alpha1", "kind": "Lease", "service": j.Service,
		}}}}
	}
	mounts := []any{object{"name": "berth", "mountPath": home}}
	pod := object{
		"restartPolicy": "OnFailure",
		"initContainers": []any{object{
			"name": "berth", "image": j.Berth, "command": []any{"/usr/local/bin/berth", "work", "--install", home + "/berth"}, "volumeMounts": mounts,
		}},
		"containers": []any{object{
			"name": "worker", "image": j.Image, "command": []any{home + "/berth", "work", "--await", fmt.Sprintf("%ds", awaitRunner)},
			"env":          []any{object{"name": "XDG_CACHE_HOME", "value": home + "/cache"}},
			"resources":    object{"claims": []any{object{"name": "gpu"}}},
			"volumeMounts": mounts,
		}},
		"volumes":        []any{object{"name": "berth", "emptyDir": object{}}},
		"resourceClaims": []any{object{"name": "gpu", "resourceClaimTemplateName": j.Name}},
	}
	job := object{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": object{"name": j.Name, "labels": labels},
		"spec": object{
			"parallelism": j.Pods, "backoffLimit": mostFailures, "ttlSecondsAfterFinished": keepJob,
			"template": object{"metadata": object{"labels": labels}, "spec": pod},
		},
	}
	about := object{"name": j.Name, "labels": labels}
	if jobUID != "" {
		about["ownerReferences"] = []any{object{"apiVersion": "batch/v1", "kind": "Job", "name": j.Name, "uid": jobUID}}
	}
	claim := object{
		"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": about,
		"spec": object{"metadata": object{"labels": labels}, "spec": object{"devices": devices}},
	}
	return []object{job, claim}
}

// print identifies what a Job is made of.
func (j Job) print() string {
	text, _ := json.Marshal(j) // it has nothing that cannot be written
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// mostAnswer limits the answer about a Job, in bytes.
const mostAnswer = 16 << 20

// BeginJob makes a Job, unless one that an earlier runner made is still at work. It replaces
// one that is something else, or has ended.
func (c *Cluster) BeginJob(ctx context.Context, j Job) (found bool, err error) {
	uid, same, err := c.find(ctx, j)
	switch {
	case err != nil:
		return false, err
	case uid != "" && !same:
		if _, err := c.run(ctx, mostAnswer, "delete", "job", j.Name, "--namespace="+c.Namespace, "--cascade=foreground", "--wait=true", "--ignore-not-found"); err != nil {
			return false, about("remove the Job of an earlier run", err)
		}
		uid = ""
	}
	found = uid != ""
	if !found {
		job := j.Objects("")[0]
		job["metadata"].(object)["annotations"] = object{specNote: j.print()}
		defer func() {
			problem := (*Error)(nil)
			theirs := errors.As(err, &problem) && problem.Code == "AlreadyExists"
			if err != nil && !theirs { // it may be there, and its pods would wait for ever
				_ = c.EndJob(context.WithoutCancel(ctx), j.Name)
			}
		}()
		if uid, err = c.create(ctx, job); err != nil {
			return false, about("make the Job", err)
		}
	}
	_, err = c.create(ctx, j.Objects(uid)[1])
	if problem := (*Error)(nil); errors.As(err, &problem) && problem.Code == "AlreadyExists" {
		err = nil
	}
	return found, about("make the ResourceClaimTemplate", err)
}

// about says what an error is about.
func about(what string, err error) error {
	if problem := (*Error)(nil); errors.As(err, &problem) {
		problem.Text = what + ": " + problem.Text
		if problem.Code == "Forbidden" {
			problem.Next = "you need the rights to make Jobs and ResourceClaimTemplates, and to exec into pods, in that namespace (berth help hosts)"
		}
	}
	return err
}

// find returns the UID of a Job; empty if there is none. It is the same if it was made of
// the same things and is at work.
func (c *Cluster) find(ctx context.Context, j Job) (uid string, same bool, err error) {
	said, err := c.run(ctx, mostAnswer, "get", "job", j.Name, "--namespace="+c.Namespace, "--output=json", "--ignore-not-found")
	if err != nil || len(said) == 0 {
		return "", false, about("look for the Job", err)
	}
	var job struct {
		Metadata struct {
			UID         string            `json:"uid"`
			Annotations map[string]string `json:"annotations"`
			Deleted     *string           `json:"deletionTimestamp"`
		} `json:"metadata"`
		Status struct {
			Active    int `json:"active"`
			Succeeded int `json:"succeeded"`
			Failed    int `json:"failed"`
		} `json:"status"`
	}
	if err := json.Unmarshal(said, &job); err != nil {
		return "", false, &Error{Text: "look for the Job: kubectl did not print JSON: " + err.Error()}
	}
	ended := job.Status.Active == 0 && job.Status.Succeeded+job.Status.Failed > 0 || job.Metadata.Deleted != nil
	return job.Metadata.UID, job.Metadata.Annotations[specNote] == j.print() && !ended, nil
}

// create makes an object, and returns its UID.
func (c *Cluster) create(ctx context.Context, o object) (uid string, err error) {
	text, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	said, err := c.runWith(ctx, text, mostAnswer, "create", "--namespace="+c.Namespace, "--filename=-", "--output=json")
	if err != nil {
		return "", err
	}
	var made struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(said, &made); err != nil {
		return "", &Error{Text: "kubectl did not print JSON: " + err.Error()}
	}
	return made.Metadata.UID, nil
}

// EndJob removes a Job, and with it its pods and their claims. It does not wait for them.
func (c *Cluster) EndJob(ctx context.Context, name string) error {
	_, err := c.run(ctx, mostAnswer, "delete", "job", name, "--namespace="+c.Namespace, "--cascade=background", "--wait=false", "--ignore-not-found")
	return about("remove the Job", err)
}

// Worker is a pod of a Job.
type Worker struct {
	Pod  string
	Away string // why it cannot be used yet, in one sentence without a full stop; empty if it can
}

// Workers returns the pods of a Job that have not ended, by name.
func (c *Cluster) Workers(ctx context.Context, job string) ([]Worker, error) {
	said, err := c.run(ctx, mostPods, "get", "pods", "--namespace="+c.Namespace, "--selector=berth.dev/run="+job, "--output=json")
	if err != nil {
		return nil, about("list the pods of the Job", err)
	}
	var list podList
	if err := json.Unmarshal(said, &list); err != nil {
		return nil, &Error{Text: "list the pods of the Job: kubectl did not print JSON: " + err.Error()}
	}
	workers := map[string]Worker{}
	for _, p := range list.Items {
		if p.Metadata.Deleted == nil && p.Status.Phase != "Succeeded" && p.Status.Phase != "Failed" && isName(p.Metadata.Name, 253, "-.") {
			workers[p.Metadata.Name] = Worker{Pod: p.Metadata.Name, Away: p.waits()}
		}
	}
	names := slices.Sorted(maps.Keys(workers))
	all := make([]Worker, 0, len(names))
	for _, name := range names {
		all = append(all, workers[name])
	}
	return all, nil
}

// waits says why a pod does not run yet.
func (p pod) waits() string {
	if p.Status.Phase == "Running" {
		return ""
	}
	for _, c := range p.Status.Containers {
		if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "PodInitializing" && w.Reason != "ContainerCreating" {
			return fmt.Sprintf("its container waits (%s): kubectl describe pod %s says more", w.Reason, p.Metadata.Name)
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == "PodScheduled" && c.Status == "False" && c.Message != "" {
			return "it has no node yet: " + c.Message
		}
	}
	return "it is being started"
}

// Exec returns the command that runs a program in a container of a pod, with its standard
// input.
func (c *Cluster) Exec(pod, container string, command ...string) []string {
	args := append(slices.Clone(c.command), "exec", "--stdin", "--namespace="+c.Namespace, pod, "--container="+container)
	if c.Context != "" {
		args = append(args, "--context="+c.Context)
	}
	return append(append(args, "--"), command...)
}

// Work is the command of berth in a pod of a Job.
func (c *Cluster) Work(pod string) []string {
	return c.Exec(pod, "worker", home+"/berth", "work", "--pod")
}
