package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
)

// The daemon is found the way the command line finds it.
func Example() {
	daemon, err := client.Find(client.Options{}, os.Getenv)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer daemon.Close()

	all, err := daemon.StatusAll(context.Background())
	if missing := (*client.NoDaemonError)(nil); errors.As(err, &missing) {
		fmt.Println("nobody is there;", missing.Hint())
		return
	}
	for _, d := range all.GPUs {
		fmt.Println(d.Device.Index, d.Device.Name, d.State)
	}
}

func ExampleClient_Status() {
	daemon, _ := client.New(client.Options{Transport: client.Through(exampleDaemon())})
	device, err := daemon.Status(context.Background(), "0")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(device.Device.Name, device.State)
	if celsius, measured := device.Sample.Temperature.Get(); measured {
		fmt.Println(celsius, "°C")
	}
	// Output:
	// NVIDIA H200 OPTIMAL
	// 41 °C
}

// What the daemon refuses comes back as a problem with a stable code.
func ExampleClient_Status_problem() {
	daemon, _ := client.New(client.Options{Transport: client.Through(exampleDaemon())})
	_, err := daemon.Status(context.Background(), "9")
	if problem := (*api.Problem)(nil); errors.As(err, &problem) {
		fmt.Println(problem.Code)
		fmt.Println(problem.Detail)
	}
	// Output:
	// unknown_device
	// There is no device "9" here.
}

// A lease that is released when the function returns, and ends by itself if the
// process is killed before.
func ExampleClient_Hold() {
	daemon, _ := client.New(client.Options{Transport: client.Through(exampleDaemon())})
	lease, err := daemon.Hold(context.Background(), api.LeaseRequest{Service: "embedder", Memory: 4096})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Close()

	finished := make(chan struct{})
	go func() { // the work
		fmt.Println("working on", lease.Parts[0].GPU, "with", lease.Parts[0].Memory)
		close(finished)
	}()
	select {
	case <-finished:
	case <-lease.Lost():
		fmt.Println("the lease is gone: stop using the device")
	}
	// Output:
	// working on GPU-5a9c with 4 GiB
}

// A job runs without its caller; WaitJob returns when it has ended.
func ExampleClient_Submit() {
	daemon, _ := client.New(client.Options{Transport: client.Through(exampleDaemon())})
	job, err := daemon.Submit(context.Background(), api.JobRequest{
		Command: []string{"python", "train.py"}, Name: "train", Lease: api.LeaseRequest{Memory: 8192},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(job.ID, job.State)
	job, err = daemon.WaitJob(context.Background(), job.ID)
	if err != nil {
		fmt.Println(err)
		return
	}
	if code, known := job.Exit.Get(); known {
		fmt.Println(job.State, code)
	}
	// Output:
	// train-17 waiting
	// done 0
}

func ExampleClient_Events() {
	daemon, _ := client.New(client.Options{Transport: client.Through(exampleDaemon())})
	for event, err := range daemon.Events(context.Background(), 0, false) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(event.ID, event.Code, event.Text)
	}
	// Output:
	// 7 throttle GPU 0 is at 81 °C.
	// 8 resume GPU 0 is at 70 °C.
}

// exampleDaemon answers as a daemon with one GPU would.
func exampleDaemon() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/gpu/status", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("gpu") != "0" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"code":"unknown_device","detail":"There is no device \"9\" here."}`)
			return
		}
		fmt.Fprint(w, `{"device":{"name":"NVIDIA H200"},"state":"OPTIMAL","sample":{"temperature_celsius":41}}`)
	})
	mux.HandleFunc("POST /api/leases", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"id":"lease-1","fence":1,"binding":"ttl","ttl_seconds":60,"parts":[{"gpu":"GPU-5a9c","memory_mb":4096,"slots":1}]}`)
	})
	mux.HandleFunc("DELETE /api/leases/lease-1", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"id":"lease-1"}`)
	})
	mux.HandleFunc("POST /api/jobs", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"id":"train-17","state":"waiting"}`)
	})
	mux.HandleFunc("GET /api/jobs/train-17", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"id":"train-17","state":"done","exit_code":0}`)
	})
	mux.HandleFunc("GET /api/events", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "id: 7\nevent: throttle\ndata: {\"id\":7,\"code\":\"throttle\",\"text\":\"GPU 0 is at 81 °C.\"}\n\n")
		fmt.Fprint(w, "id: 8\nevent: resume\ndata: {\"id\":8,\"code\":\"resume\",\"text\":\"GPU 0 is at 70 °C.\"}\n\n")
	})
	return mux
}
