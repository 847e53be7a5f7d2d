// Package page holds one template a page. Each takes a view model and nothing else.
package page
