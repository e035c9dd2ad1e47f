// Package infra has the template of a deployment for CloudFormation, and a configuration for
// Terraform that deploys it: tables, roles with their policies, alarms and functions. Parameters
// select the parts, and the package fills in their defaults. It is pure: it sends nothing and
// reads no clock.
package infra
