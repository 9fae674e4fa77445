// A static Go program with net/http, without a timeout: one client that keeps connections, or not.
// with_go HOST PORT MODE WORKERS PAUSE; prints what loop.py prints.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

type line struct {
	Worker int     `json:"worker"`
	At     float64 `json:"at"`
	Took   float64 `json:"took"`
	Error  string  `json:"error"`
	What   string  `json:"what"`
}

func ask(client *http.Client, url string) error {
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

func main() {
	host, port, mode := os.Args[1], os.Args[2], os.Args[3]
	workers, _ := strconv.Atoi(os.Args[4])
	pause, _ := strconv.ParseFloat(os.Args[5], 64)
	url := fmt.Sprintf("http://%s:%s/", host, port)
	transport := &http.Transport{DisableKeepAlives: mode == "new", MaxIdleConnsPerHost: 10}
	client := &http.Client{Transport: transport}
	var oneLine sync.Mutex
	work := func(worker int) {
		for {
			began := time.Now()
			err := ask(client, url)
			told := line{worker, float64(began.UnixMicro()) / 1e6, time.Since(began).Seconds(), "", ""}
			if err != nil {
				told.Error, told.What = fmt.Sprintf("%T", err), err.Error()
			}
			text, _ := json.Marshal(told)
			oneLine.Lock()
			os.Stdout.Write(append(text, '\n'))
			oneLine.Unlock()
			time.Sleep(time.Duration(pause * float64(time.Second)))
		}
	}
	for worker := 0; worker < workers; worker++ {
		go work(worker)
	}
	select {}
}
