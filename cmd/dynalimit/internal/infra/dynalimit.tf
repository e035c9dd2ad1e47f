# Limits and budgets of LLM calls in DynamoDB: tables, roles, alarms and functions, as one stack of
# CloudFormation. Its template says which parameters it has.
terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "stack_name" {
  description = "Name of the stack"
  type        = string
  default     = "dynalimit"
}

variable "parameters" {
  description = "Values of the template's parameters, such as { DeletionProtection = \"false\" }; the others keep their defaults"
  type        = map(string)
  default     = {}
}

variable "tags" {
  description = "Tags of the stack, which puts them on everything in it"
  type        = map(string)
  default     = {}
}

resource "aws_cloudformation_stack" "dynalimit" {
  name         = var.stack_name
  capabilities = ["CAPABILITY_IAM"]
  parameters   = var.parameters
  tags         = var.tags

  # An update that would replace or delete a table is refused.
  policy_body = jsonencode({
    Statement = [
      { Effect = "Allow", Principal = "*", Action = "Update:*", Resource = "*" },
      {
        Effect    = "Deny", Principal = "*", Action = ["Update:Replace", "Update:Delete"], Resource = "*"
        Condition = { StringEquals = { ResourceType = ["AWS::DynamoDB::Table"] } }
      },
    ]
  })

  template_body = <<TEMPLATE
TEMPLATE
}

output "outputs" {
  description = "Names and ARNs of tables, streams, roles and policies"
  value       = aws_cloudformation_stack.dynalimit.outputs
}
