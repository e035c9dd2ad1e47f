# Limits of LLM calls in DynamoDB (dynalimit): roles; roles of namespace eu.
terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "limits_table_name" {
  description = "Name of the table: Limits, buckets, entities and their history"
  type        = string
  default     = "limits"
}

variable "kms_key_arn" {
  description = "ARN of the KMS key, not of an alias, that the tables are encrypted under; null for a key of Amazon's"
  type        = string
  default     = null
}

variable "permissions_boundary_arn" {
  description = "ARN of the permissions boundary of the roles; null for none"
  type        = string
  default     = null
}

variable "trusted_principal_arn" {
  description = "ARN of who may take the roles; null for this account, whose policies then say who may"
  type        = string
  default     = null
}

variable "trusted_service" {
  description = "AWS service that may take the role that serves calls, that which follows the stream, and the keeper's, such as ecs-tasks.amazonaws.com, instead of the principal; null for none"
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of everything that can have some"
  type        = map(string)
  default     = {}
}

data "aws_partition" "current" {
}

data "aws_region" "current" {
}

data "aws_caller_identity" "current" {
}

locals {
  limits_table_arn = "arn:${data.aws_partition.current.partition}:dynamodb:${data.aws_region.current.id}:${data.aws_caller_identity.current.account_id}:table/${var.limits_table_name}"
}

# Serves calls: takes from buckets, and cannot change a limit.
resource "aws_iam_policy" "acquire" {
  name_prefix = "dynalimit-acquire-"
  description = "Serves calls: takes from buckets, and cannot change a limit"
  tags        = var.tags
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        # Limits, entities and their buckets.
        {
          Sid      = "ReadLimits"
          Effect   = "Allow"
          Action   = ["dynamodb:BatchGetItem", "dynamodb:GetItem"]
          Resource = [local.limits_table_arn]
          Condition = {
            "ForAllValues:StringLike" = {
              "dynamodb:LeadingKeys" = ["eu/ENTITY#*", "eu/PLAN#*", "eu/RESOURCE#*", "eu/SYSTEM#", "SYSTEM#"]
            }
            Null = {
              "dynamodb:LeadingKeys" = "false"
            }
          }
        },
        # An entity's limits and usage have its buckets' partition key: the attributes tell them apart.
        {
          Sid      = "WriteBuckets"
          Effect   = "Allow"
          Action   = ["dynamodb:UpdateItem"]
          Resource = [local.limits_table_arn]
          Condition = {
            "ForAllValues:StringLike" = {
              "dynamodb:LeadingKeys" = "eu/ENTITY#*"
              "dynamodb:Attributes" = [
                "PK",
                "SK",
                "entity_id",
                "resource",
                "rf",
                "cv",
                "ct",
                "ci",
                "ttl",
                "GSI2PK",
                "GSI2SK",
                "op0",
                "op1",
                "op2",
                "op3",
                "b_*",
                "q_*",
                "s_*",
                "pu",
              ]
            }
            Null = {
              "dynamodb:LeadingKeys" = "false"
              "dynamodb:Attributes"  = "false"
            }
          }
        },
      ],
      var.kms_key_arn == null ? [] : [
        # The tables are encrypted under a key of this account: DynamoDB uses it for the caller.
        {
          Sid      = "UseKey"
          Effect   = "Allow"
          Action   = ["kms:Decrypt"]
          Resource = [var.kms_key_arn]
          Condition = {
            StringLike = {
              "kms:ViaService" = "dynamodb.*"
            }
          }
        },
      ],
    )
  })
}

resource "aws_iam_role" "acquire" {
  name_prefix          = "dynalimit-acquire-"
  description          = "Serves calls: takes from buckets, and cannot change a limit"
  permissions_boundary = var.permissions_boundary_arn
  tags                 = var.tags
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Allow"
        Action    = "sts:AssumeRole"
        Principal = var.trusted_service == null ? { AWS = coalesce(var.trusted_principal_arn, "arn:${data.aws_partition.current.partition}:iam::${data.aws_caller_identity.current.account_id}:root") } : { Service = var.trusted_service }
      },
    ]
  })
}

resource "aws_iam_role_policy_attachment" "acquire" {
  role       = aws_iam_role.acquire.name
  policy_arn = aws_iam_policy.acquire.arn
}

# Reads limits, entities, buckets and the history of changes.
resource "aws_iam_policy" "read" {
  name_prefix = "dynalimit-read-"
  description = "Reads limits, entities, buckets and the history of changes"
  tags        = var.tags
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        # Everything that is stored.
        {
          Sid      = "ReadItems"
          Effect   = "Allow"
          Action   = ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"]
          Resource = [local.limits_table_arn, "${local.limits_table_arn}/index/*"]
          Condition = {
            "ForAllValues:StringLike" = {
              "dynamodb:LeadingKeys" = ["eu/*", "SYSTEM#"]
            }
            Null = {
              "dynamodb:LeadingKeys" = "false"
            }
          }
        },
        # What the table is like.
        {
          Sid      = "Describe"
          Effect   = "Allow"
          Action   = ["dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"]
          Resource = [local.limits_table_arn]
        },
      ],
      var.kms_key_arn == null ? [] : [
        # The tables are encrypted under a key of this account: DynamoDB uses it for the caller.
        {
          Sid      = "UseKey"
          Effect   = "Allow"
          Action   = ["kms:Decrypt"]
          Resource = [var.kms_key_arn]
          Condition = {
            StringLike = {
              "kms:ViaService" = "dynamodb.*"
            }
          }
        },
      ],
    )
  })
}

resource "aws_iam_role" "read" {
  name_prefix          = "dynalimit-read-"
  description          = "Reads limits, entities, buckets and the history of changes"
  permissions_boundary = var.permissions_boundary_arn
  tags                 = var.tags
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Allow"
        Action    = "sts:AssumeRole"
        Principal = { AWS = coalesce(var.trusted_principal_arn, "arn:${data.aws_partition.current.partition}:iam::${data.aws_caller_identity.current.account_id}:root") }
      },
    ]
  })
}

resource "aws_iam_role_policy_attachment" "read" {
  role       = aws_iam_role.read.name
  policy_arn = aws_iam_policy.read.arn
}

# Changes limits, entities and buckets.
resource "aws_iam_policy" "admin" {
  name_prefix = "dynalimit-admin-"
  description = "Changes limits, entities and buckets"
  tags        = var.tags
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        # Everything that is stored.
        {
          Sid      = "ReadItems"
          Effect   = "Allow"
          Action   = ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"]
          Resource = [local.limits_table_arn, "${local.limits_table_arn}/index/*"]
          Condition = {
            "ForAllValues:StringLike" = {
              "dynamodb:LeadingKeys" = ["eu/*", "SYSTEM#"]
            }
            Null = {
              "dynamodb:LeadingKeys" = "false"
            }
          }
        },
        # What the table is like.
        {
          Sid      = "Describe"
          Effect   = "Allow"
          Action   = ["dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"]
          Resource = [local.limits_table_arn]
        },
        # Changes, each with its event.
        {
          Sid    = "ChangeItems"
          Effect = "Allow"
          Action = [
            "dynamodb:BatchWriteItem",
            "dynamodb:ConditionCheckItem",
            "dynamodb:DeleteItem",
            "dynamodb:PutItem",
            "dynamodb:UpdateItem",
          ]
          Resource = [local.limits_table_arn]
          Condition = {
            "ForAllValues:StringLike" = {
              "dynamodb:LeadingKeys" = "eu/*"
            }
            Null = {
              "dynamodb:LeadingKeys" = "false"
            }
          }
        },
      ],
      var.kms_key_arn == null ? [] : [
        # The tables are encrypted under a key of this account: DynamoDB uses it for the caller.
        {
          Sid      = "UseKey"
          Effect   = "Allow"
          Action   = ["kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey"]
          Resource = [var.kms_key_arn]
          Condition = {
            StringLike = {
              "kms:ViaService" = "dynamodb.*"
            }
          }
        },
      ],
    )
  })
}

resource "aws_iam_role" "admin" {
  name_prefix          = "dynalimit-admin-"
  description          = "Changes limits, entities and buckets"
  permissions_boundary = var.permissions_boundary_arn
  tags                 = var.tags
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Allow"
        Action    = "sts:AssumeRole"
        Principal = { AWS = coalesce(var.trusted_principal_arn, "arn:${data.aws_partition.current.partition}:iam::${data.aws_caller_identity.current.account_id}:root") }
      },
    ]
  })
}

resource "aws_iam_role_policy_attachment" "admin" {
  role       = aws_iam_role.admin.name
  policy_arn = aws_iam_policy.admin.arn
}

output "acquire_role_arn" {
  description = "Serves calls: takes from buckets, and cannot change a limit"
  value       = aws_iam_role.acquire.arn
}

output "acquire_policy_arn" {
  description = "The policy, to attach to a role of yours"
  value       = aws_iam_policy.acquire.arn
}

output "read_role_arn" {
  description = "Reads limits, entities, buckets and the history of changes"
  value       = aws_iam_role.read.arn
}

output "read_policy_arn" {
  description = "The policy, to attach to a role of yours"
  value       = aws_iam_policy.read.arn
}

output "admin_role_arn" {
  description = "Changes limits, entities and buckets"
  value       = aws_iam_role.admin.arn
}

output "admin_policy_arn" {
  description = "The policy, to attach to a role of yours"
  value       = aws_iam_policy.admin.arn
}
