// Package component holds the parts that pages are made of.
package component
