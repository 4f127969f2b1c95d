// A server of the official Go SDK for the tests: over stdio, or over HTTP on the port
// that is its argument.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type pair struct {
	A int `json:"a" jsonschema:"the first number"`
	B int `json:"b" jsonschema:"the second number"`
}

type product struct {
	Product int `json:"product"`
}

func newServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "gosdk-test", Version: "1.0.0"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "multiply", Description: "Multiply two whole numbers."},
		func(_ context.Context, _ *mcp.CallToolRequest, in pair) (*mcp.CallToolResult, product, error) {
			return nil, product{in.A * in.B}, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "refuse", Description: "Fail with a reason."},
		func(_ context.Context, _ *mcp.CallToolRequest, in struct {
			Reason string `json:"reason"`
		}) (*mcp.CallToolResult, any, error) {
			return nil, nil, fmt.Errorf("%s", in.Reason)
		})
	s.AddResource(&mcp.Resource{URI: "note://one", Name: "one"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "note://one", Text: "a note"}}}, nil
	})
	return s
}

func main() {
	if len(os.Args) < 2 {
		log.Fatal(newServer().Run(context.Background(), &mcp.StdioTransport{}))
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return newServer() }, nil)
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], handler))
}
