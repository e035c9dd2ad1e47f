# Limits and budgets of LLM calls in DynamoDB: tables, roles, alarms and functions.
# The first variables say what of it is made.
terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.32" # where a function's log goes
    }
  }
}

variable "tables" {
  description = "Make the tables; false for tables that are there already"
  type        = bool
  default     = true
}

variable "roles" {
  description = "Make roles for what serves calls, for readers and for administrators"
  type        = bool
  default     = true
}

variable "alarms" {
  description = "Make alarms"
  type        = bool
  default     = true
}

variable "budgets" {
  description = "Include the tables of budgets"
  type        = bool
  default     = false
}

variable "aggregator" {
  description = "Make the function that adds up usage"
  type        = bool
  default     = false
}

variable "archive" {
  description = "Make the function that keeps what expires in a bucket of S3"
  type        = bool
  default     = false
}

variable "tail" {
  description = "Make the role of what runs dynalimit tail"
  type        = bool
  default     = false
}

variable "keeper" {
  description = "Make the role of what runs dynalimit keeper serve; it needs budgets"
  type        = bool
  default     = false
}

variable "limits_table_name" {
  description = "Table of limits, buckets, entities and their history"
  type        = string
  default     = "limits"
}

variable "budget_control_table_name" {
  description = "Table of budgets: organisations, apps, prices and who changed them"
  type        = string
  default     = "control"
}

variable "budget_usage_table_name" {
  description = "Table of budgets: what was spent"
  type        = string
  default     = "usage"
}

variable "namespace_prefix" {
  description = "Namespace of the roles with a slash behind it, such as eu/; empty for the whole table"
  type        = string
  default     = ""

  validation {
    condition     = can(regex("^([a-zA-Z0-9][a-zA-Z0-9_.:@-]*/)?$", var.namespace_prefix))
    error_message = "It is a namespace with a slash at the end, such as eu/."
  }
}

variable "deletion_protection" {
  description = "Protect the tables from being deleted"
  type        = bool
  default     = true
}

variable "kms_key_arn" {
  description = "ARN of the KMS key (no alias) that encrypts the tables; empty for a key of Amazon's"
  type        = string
  default     = ""

  validation { # a policy that names an alias allows nothing
    condition     = can(regex("^(arn:.+:key/.+)?$", var.kms_key_arn))
    error_message = "It is the ARN of a key, not of an alias."
  }
}

variable "permissions_boundary_arn" {
  description = "ARN of the permissions boundary of the roles; empty for none"
  type        = string
  default     = ""
}

variable "trusted_principal_arn" {
  description = "ARN of who may take the roles; empty for this account, whose policies then say who may"
  type        = string
  default     = ""
}

variable "trusted_service" {
  description = "AWS service that may take the roles acquire, tail and keeper instead of the principal, such as ecs-tasks.amazonaws.com; empty for none"
  type        = string
  default     = ""
}

variable "alarm_topic_arn" {
  description = "ARN of the SNS topic that alarms are sent to; empty for none"
  type        = string
  default     = ""
}

variable "limits_stream_arn" {
  description = "ARN of the stream of a table that is there already, for the functions; empty where the tables are made"
  type        = string
  default     = ""
}

variable "aggregator_code_bucket" {
  description = "S3 bucket, in the region, with the zip of the functions, which make lambda builds"
  type        = string
  default     = ""
}

variable "aggregator_code_key" {
  description = "Key of the zip in the bucket; another one deploys another version"
  type        = string
  default     = ""
}

variable "aggregator_batching_window" {
  description = "Seconds that the aggregator waits for more records, 0 to 300: more is cheaper, and usage is later"
  type        = number
  default     = 60
}

variable "usage_retention_days" {
  description = "Days that hourly usage is kept, where the table says nothing yet; 0 for ever"
  type        = number
  default     = 90
}

variable "archive_bucket" {
  description = "S3 bucket, in any region, that keeps what expires"
  type        = string
  default     = ""
}

variable "archive_prefix" {
  description = "What the key of every object begins with, with a slash at the end"
  type        = string
  default     = "dynalimit/"
}

variable "archive_kms_key_arn" {
  description = "ARN of the KMS key (no alias) that encrypts the objects; empty for what the bucket says"
  type        = string
  default     = ""
}

variable "keyset_secret_arn" {
  description = "ARN of the secret in Secrets Manager that has the keeper's keys; empty for keys from elsewhere"
  type        = string
  default     = ""
}

variable "alert_secret_arn" {
  description = "ARN of the secret in Secrets Manager with the webhook of alerts; empty for none"
  type        = string
  default     = ""
}

variable "tags" {
  description = "Tags of everything that can have some"
  type        = map(string)
  default     = {}
}

data "aws_partition" "current" {}

data "aws_region" "current" {}

data "aws_caller_identity" "current" {}

# Tables.
resource "aws_dynamodb_table" "limits" {
  count = var.tables ? 1 : 0

  name                        = var.limits_table_name
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "PK"
  range_key                   = "SK"
  deletion_protection_enabled = var.deletion_protection
  stream_enabled              = true
  stream_view_type            = "NEW_AND_OLD_IMAGES"
  tags                        = var.tags

  dynamic "attribute" {
    for_each = ["PK", "SK", "GSI1PK", "GSI1SK", "GSI2PK", "GSI2SK", "GSI3PK", "GSI3SK"]
    content {
      name = attribute.value
      type = "S"
    }
  }
  global_secondary_index {
    name            = "GSI1"
    hash_key        = "GSI1PK"
    range_key       = "GSI1SK"
    projection_type = "INCLUDE"
    non_key_attributes = [
      "entity_id", "name", "parent_id", "cascade", "metadata", "created_at", "plan", "metadata_json", "version", "deleting", "managed_by", "parent_counts",
    ]
  }
  global_secondary_index {
    name            = "GSI2"
    hash_key        = "GSI2PK"
    range_key       = "GSI2SK"
    projection_type = "KEYS_ONLY"
  }
  global_secondary_index {
    name            = "GSI3"
    hash_key        = "GSI3PK"
    range_key       = "GSI3SK"
    projection_type = "KEYS_ONLY"
  }
  ttl {
    attribute_name = "ttl"
    enabled        = true
  }
  point_in_time_recovery {
    enabled = true
  }
  server_side_encryption {
    enabled     = var.kms_key_arn != ""
    kms_key_arn = var.kms_key_arn == "" ? null : var.kms_key_arn
  }
  lifecycle {
    prevent_destroy = true
  }
}

resource "aws_dynamodb_table" "budget" {
  for_each = { for id, name in local.budget_tables : id => name if var.tables }

  name                        = each.value
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "PK"
  range_key                   = "SK"
  deletion_protection_enabled = var.deletion_protection
  stream_enabled              = true
  stream_view_type            = "NEW_AND_OLD_IMAGES"
  tags                        = var.tags

  attribute {
    name = "PK"
    type = "S"
  }
  attribute {
    name = "SK"
    type = "S"
  }
  ttl {
    attribute_name = "ttl_epoch"
    enabled        = true
  }
  point_in_time_recovery {
    enabled = true
  }
  server_side_encryption {
    enabled     = var.kms_key_arn != ""
    kms_key_arn = var.kms_key_arn == "" ? null : var.kms_key_arn
  }
  lifecycle {
    prevent_destroy = true
  }
}

# What the policies are about.
locals {
  budget_tables = var.budgets ? { control = var.budget_control_table_name, usage = var.budget_usage_table_name } : {}
  limits_stream = var.tables ? aws_dynamodb_table.limits[0].stream_arn : var.limits_stream_arn

  partition   = data.aws_partition.current.partition
  account     = data.aws_caller_identity.current.account_id
  arn         = "arn:${local.partition}:dynamodb:${data.aws_region.current.id}:${local.account}:table"
  limits_arn  = "${local.arn}/${var.limits_table_name}"
  control_arn = "${local.arn}/${var.budget_control_table_name}"
  usage_arn   = "${local.arn}/${var.budget_usage_table_name}"

  bucket_attributes = [
    "PK", "SK", "entity_id", "resource", "rf", "cv", "ct", "ci", "ttl", "GSI2PK", "GSI2SK",
    "op0", "op1", "op2", "op3", "b_*", "q_*", "s_*", "pu", "wn", "wb", "v_*",
  ]
  usage_attributes = [
    "PK", "SK", "entity_id", "resource", "window", "window_start", "total_events", "seq", "GSI3PK", "GSI3SK", "ttl", "u_*", "a_*",
    "parent_id", "plan", "closed", "summed", "entities", "final", "made_at", "closed_to", "final_to", "closed_from",
    "keep_hours", "keep_days", "keep_months", "kept_version",
  ]
}

# Policies. A request may touch many keys and attributes, so they are compared as sets. Such a
# comparison holds for a request that says nothing of the key: the Null beside it requires that
# the key is there.
locals {
  policies = {
    # Serves calls: takes from buckets, and cannot change a limit.
    acquire = concat(
      [
        # Limits, entities and their buckets. SYSTEM# is the record of the table's version.
        {
          Sid      = "ReadLimits"
          Effect   = "Allow"
          Action   = ["dynamodb:BatchGetItem", "dynamodb:GetItem"]
          Resource = [local.limits_arn]
          Condition = {
            "ForAllValues:StringLike" = {
              "dynamodb:LeadingKeys" = distinct([
                "${var.namespace_prefix}ENTITY#*", "${var.namespace_prefix}PLAN#*", "${var.namespace_prefix}RESOURCE#*",
                "${var.namespace_prefix}SYSTEM#", "SYSTEM#",
              ])
            }
            Null = { "dynamodb:LeadingKeys" = "false" }
          }
        },
        # An entity's limits and usage have its buckets' partition key: the attributes tell them apart.
        {
          Sid      = "WriteBuckets"
          Effect   = "Allow"
          Action   = ["dynamodb:UpdateItem"]
          Resource = [local.limits_arn]
          Condition = {
            "ForAllValues:StringLike" = {
              "dynamodb:LeadingKeys" = ["${var.namespace_prefix}ENTITY#*"]
              "dynamodb:Attributes"  = local.bucket_attributes
            }
            Null = { "dynamodb:LeadingKeys" = "false", "dynamodb:Attributes" = "false" }
          }
        },
      ],
      [for s in [
        # Organisations, apps and prices.
        {
          Sid      = "ReadBudgets"
          Effect   = "Allow"
          Action   = ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"]
          Resource = [local.control_arn]
        },
        # An app that was never configured is listed: an item without a quota.
        {
          Sid      = "RegisterApps"
          Effect   = "Allow"
          Action   = ["dynamodb:UpdateItem"]
          Resource = [local.control_arn]
          Condition = {
            "ForAllValues:StringLike" = {
              "dynamodb:LeadingKeys" = ["ORG#*"]
              "dynamodb:Attributes"  = ["PK", "SK", "cfg_version", "created_at_epoch", "updated_at_epoch"]
            }
            Null = { "dynamodb:LeadingKeys" = "false", "dynamodb:Attributes" = "false" }
          }
        },
        # What was spent, but not what was charged by hand.
        {
          Sid      = "Spend"
          Effect   = "Allow"
          Action   = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem"]
          Resource = [local.usage_arn]
          Condition = {
            "ForAllValues:StringNotLike" = { "dynamodb:LeadingKeys" = ["AUDIT#*"] }
            Null                         = { "dynamodb:LeadingKeys" = "false" }
          }
        },
      ] : s if var.budgets],
      local.use_key,
    )

    # Reads limits, entities, buckets and the history of changes.
    read = concat(
      [
        # Everything that is stored.
        merge(
          {
            Sid      = "ReadItems"
            Effect   = "Allow"
            Action   = ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"]
            Resource = [local.limits_arn, "${local.limits_arn}/index/*"]
          },
          { for key in ["Condition"] : key => {
            "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = ["${var.namespace_prefix}*", "SYSTEM#"] }
            Null                      = { "dynamodb:LeadingKeys" = "false" }
          } if var.namespace_prefix != "" },
        ),
        # What the table is like.
        {
          Sid      = "Describe"
          Effect   = "Allow"
          Action   = ["dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"]
          Resource = [local.limits_arn]
        },
      ],
      [for s in [
        # Budgets, and what was spent.
        {
          Sid      = "ReadBudgets"
          Effect   = "Allow"
          Action   = ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query", "dynamodb:Scan"]
          Resource = [local.control_arn, local.usage_arn]
        },
        # What the tables are like.
        {
          Sid      = "DescribeBudgets"
          Effect   = "Allow"
          Action   = ["dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"]
          Resource = [local.control_arn, local.usage_arn]
        },
      ] : s if var.budgets],
      local.use_key,
    )

    # Changes limits, entities and buckets. Who does that reads them too.
    admin = concat(
      [
        # Changes, each with its event.
        merge(
          {
            Sid    = "ChangeItems"
            Effect = "Allow"
            Action = [
              "dynamodb:BatchWriteItem", "dynamodb:ConditionCheckItem", "dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:UpdateItem",
            ]
            Resource = [local.limits_arn]
          },
          { for key in ["Condition"] : key => {
            "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = ["${var.namespace_prefix}*"] }
            Null                      = { "dynamodb:LeadingKeys" = "false" }
          } if var.namespace_prefix != "" },
        ),
      ],
      [for s in [
        # Makes the table, migrates it, and purges namespaces.
        {
          Sid      = "ChangeTable"
          Effect   = "Allow"
          Action   = ["dynamodb:CreateTable", "dynamodb:Scan", "dynamodb:UpdateTimeToLive"]
          Resource = [local.limits_arn]
        },
      ] : s if var.namespace_prefix == ""],
      [for s in [
        # Changes, each with its event, and the tables themselves.
        {
          Sid      = "ChangeBudgets"
          Effect   = "Allow"
          Action   = ["dynamodb:CreateTable", "dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:UpdateTimeToLive"]
          Resource = [local.control_arn, local.usage_arn]
        },
        # That what is overridden is there, and a deletion under way.
        {
          Sid      = "BesideDeletions"
          Effect   = "Allow"
          Action   = ["dynamodb:ConditionCheckItem"]
          Resource = [local.control_arn]
        },
      ] : s if var.budgets],
      [for s in [
        {
          Sid       = "MakeWithKey"
          Effect    = "Allow"
          Action    = ["kms:CreateGrant", "kms:DescribeKey"]
          Resource  = [var.kms_key_arn]
          Condition = { StringLike = { "kms:ViaService" = "dynamodb.*" } }
        },
      ] : s if var.kms_key_arn != ""],
    )

    # Turns the stream of the limits into usage, of all namespaces: what follows it, and the function.
    usage = concat(
      [
        # What changed.
        {
          Sid      = "ReadStream"
          Effect   = "Allow"
          Action   = ["dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"]
          Resource = ["${local.limits_arn}/stream/*"]
        },
        # What is to be summed, and where entities stand.
        {
          Sid      = "ReadUsage"
          Effect   = "Allow"
          Action   = ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"]
          Resource = [local.limits_arn, "${local.limits_arn}/index/*"]
        },
        # Snapshots and sums: the attributes tell them from limits and buckets.
        {
          Sid      = "WriteUsage"
          Effect   = "Allow"
          Action   = ["dynamodb:PutItem", "dynamodb:UpdateItem"]
          Resource = [local.limits_arn]
          Condition = {
            "ForAllValues:StringLike" = {
              "dynamodb:LeadingKeys" = [
                "ENTITY#*", "PLAN#*", "RESOURCE#*", "SYSTEM#", "*/ENTITY#*", "*/PLAN#*", "*/RESOURCE#*", "*/SYSTEM#",
              ]
              "dynamodb:Attributes" = local.usage_attributes
            }
            Null = { "dynamodb:LeadingKeys" = "false", "dynamodb:Attributes" = "false" }
          }
        },
      ],
      local.use_key,
    )

    # Follows the stream (dynalimit tail).
    tail = [
      # Which stream the table has.
      {
        Sid      = "FindStream"
        Effect   = "Allow"
        Action   = ["dynamodb:DescribeTable"]
        Resource = [local.limits_arn]
      },
      # How far shards were read, and who reads them.
      {
        Sid      = "KeepPlace"
        Effect   = "Allow"
        Action   = ["dynamodb:PutItem", "dynamodb:UpdateItem"]
        Resource = [local.limits_arn]
        Condition = {
          "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = ["TAIL#*"] }
          Null                      = { "dynamodb:LeadingKeys" = "false" }
        }
      },
    ]

    # Serves budgets over HTTP (dynalimit keeper serve): what its routes, its sweeps, its list of
    # prices and its throttle of logins ask. It makes no table, and no provisioning key: who breaks
    # into it cannot give himself one that outlives it.
    keeper = concat(
      [
        # Organisations, prices, credentials, and what was spent.
        {
          Sid      = "ReadBudgets"
          Effect   = "Allow"
          Action   = ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query", "dynamodb:Scan"]
          Resource = [local.control_arn, local.usage_arn]
        },
        # Organisations, apps, prices and credentials, each with its event; no provisioning keys.
        {
          Sid      = "Configure"
          Effect   = "Allow"
          Action   = ["dynamodb:PutItem"]
          Resource = [local.control_arn]
          Condition = {
            "ForAllValues:StringLike" = {
              "dynamodb:LeadingKeys" = ["AUDIT#*", "CLIENT#*", "ORG#*", "PRICE#*", "RETRIEVAL#*", "REVOKED#*"]
            }
            Null = { "dynamodb:LeadingKeys" = "false" }
          }
        },
        # What is there of them, but neither prices nor what was revoked, nor the history of changes.
        {
          Sid      = "Amend"
          Effect   = "Allow"
          Action   = ["dynamodb:UpdateItem"]
          Resource = [local.control_arn]
          Condition = {
            "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = ["CLIENT#*", "ORG#*", "PROBE#*", "RETRIEVAL#*"] }
            Null                      = { "dynamodb:LeadingKeys" = "false" }
          }
        },
        # Overrides, and what models a list had.
        {
          Sid      = "EndBudgets"
          Effect   = "Allow"
          Action   = ["dynamodb:DeleteItem"]
          Resource = [local.control_arn]
          Condition = {
            "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = ["ORG#*"] }
            Null                      = { "dynamodb:LeadingKeys" = "false" }
          }
        },
        # That what is overridden is there, and that a deletion still runs.
        {
          Sid      = "Check"
          Effect   = "Allow"
          Action   = ["dynamodb:ConditionCheckItem"]
          Resource = [local.control_arn]
          Condition = {
            "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = ["ORG#*"] }
            Null                      = { "dynamodb:LeadingKeys" = "false" }
          }
        },
        # What was spent, and what was charged by hand.
        {
          Sid      = "Spend"
          Effect   = "Allow"
          Action   = ["dynamodb:PutItem", "dynamodb:UpdateItem"]
          Resource = [local.usage_arn]
        },
        # Buckets of failed logins, which are no user's, and the table's version.
        {
          Sid      = "ReadLimits"
          Effect   = "Allow"
          Action   = ["dynamodb:BatchGetItem", "dynamodb:GetItem"]
          Resource = [local.limits_arn]
          Condition = {
            "ForAllValues:StringLike" = {
              "dynamodb:LeadingKeys" = distinct([
                "${var.namespace_prefix}OWN#ENTITY#*", "${var.namespace_prefix}SYSTEM#", "SYSTEM#",
              ])
            }
            Null = { "dynamodb:LeadingKeys" = "false" }
          }
        },
        # Buckets alone, by their attributes.
        {
          Sid      = "CountLogins"
          Effect   = "Allow"
          Action   = ["dynamodb:UpdateItem"]
          Resource = [local.limits_arn]
          Condition = {
            "ForAllValues:StringLike" = {
              "dynamodb:LeadingKeys" = ["${var.namespace_prefix}OWN#ENTITY#*"]
              "dynamodb:Attributes"  = local.bucket_attributes
            }
            Null = { "dynamodb:LeadingKeys" = "false", "dynamodb:Attributes" = "false" }
          }
        },
        # The lease of the one process that sweeps.
        {
          Sid      = "SweepAlone"
          Effect   = "Allow"
          Action   = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]
          Resource = [local.limits_arn]
          Condition = {
            "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = ["${var.namespace_prefix}KEEPER-SWEEP#"] }
            Null                      = { "dynamodb:LeadingKeys" = "false" }
          }
        },
      ],
      [for s in [
        # That the namespace is there still.
        {
          Sid      = "InNamespace"
          Effect   = "Allow"
          Action   = ["dynamodb:ConditionCheckItem"]
          Resource = [local.limits_arn]
          Condition = {
            "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = ["${var.namespace_prefix}SYSTEM#"] }
            Null                      = { "dynamodb:LeadingKeys" = "false" }
          }
        },
      ] : s if var.namespace_prefix != ""],
      local.use_key,
      # The one secret that has the keys, and the one object that is the list of prices.
      [for s in [
        { Sid = "ReadKeys", Effect = "Allow", Action = ["secretsmanager:GetSecretValue"], Resource = [var.keyset_secret_arn] },
      ] : s if s.Resource[0] != ""],
    )
  }

  # The tables are encrypted under a key of this account: DynamoDB uses it for the caller.
  use_key = [for s in [
    {
      Sid       = "UseKey"
      Effect    = "Allow"
      Action    = ["kms:Decrypt"]
      Resource  = [var.kms_key_arn]
      Condition = { StringLike = { "kms:ViaService" = "dynamodb.*" } }
    },
  ] : s if var.kms_key_arn != ""]

  # What the functions may besides: as Lambda reads the stream, and as an archive puts files of
  # what expired, which S3 encrypts under a key for it.
  list_streams = {
    Sid      = "ListStreams"
    Effect   = "Allow"
    Action   = ["dynamodb:ListStreams"]
    Resource = ["${local.limits_arn}/stream/*"]
  }
  # Which one of several delivers alerts, and the one secret that has the webhook.
  delivers = concat(
    [
      {
        Sid      = "DeliverAlone"
        Effect   = "Allow"
        Action   = ["dynamodb:PutItem", "dynamodb:UpdateItem"]
        Resource = [local.limits_arn]
        Condition = {
          "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = ["TAIL#alerts"] }
          Null                      = { "dynamodb:LeadingKeys" = "false" }
        }
      },
    ],
    [for s in [
      { Sid = "ReadWebhook", Effect = "Allow", Action = ["secretsmanager:GetSecretValue"], Resource = [var.alert_secret_arn] },
    ] : s if s.Resource[0] != ""],
  )
  archives = concat(
    [
      {
        Sid      = "ReadStream"
        Effect   = "Allow"
        Action   = ["dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator", "dynamodb:ListStreams"]
        Resource = ["${local.limits_arn}/stream/*"]
      },
      {
        Sid      = "PutObjects"
        Effect   = "Allow"
        Action   = ["s3:PutObject"]
        Resource = ["arn:${local.partition}:s3:::${var.archive_bucket}/${var.archive_prefix}*"]
      },
    ],
    local.use_key,
    [for s in [
      {
        Sid       = "UseArchiveKey"
        Effect    = "Allow"
        Action    = ["kms:GenerateDataKey"]
        Resource  = [var.archive_kms_key_arn]
        Condition = { StringLike = { "kms:ViaService" = "s3.*" } }
      },
    ] : s if var.archive_kms_key_arn != ""],
  )
}

# Roles, and the policies that each has.
locals {
  all_roles = {
    acquire    = { made = var.roles, service = var.trusted_service, policies = ["acquire"], about = "Serves calls: takes from buckets, and cannot change a limit" }
    read       = { made = var.roles, service = "", policies = ["read"], about = "Reads limits, entities, buckets and the history of changes" }
    admin      = { made = var.roles, service = "", policies = ["read", "admin"], about = "Changes limits, entities and buckets" }
    tail       = { made = var.tail, service = var.trusted_service, policies = ["usage", "tail"], about = "Follows the stream of the limits, and turns it into usage" }
    keeper     = { made = var.keeper, service = var.trusted_service, policies = ["keeper"], about = "Serves budgets over HTTP" }
    aggregator = { made = var.aggregator, service = "lambda.amazonaws.com", policies = ["usage"], about = "Adds the stream of the limits to usage" }
    archive    = { made = var.archive, service = "lambda.amazonaws.com", policies = [], about = "Keeps what expires of the limits in S3" }
  }
  made_roles  = { for id, role in local.all_roles : id => role if role.made }
  attachments = { for pair in flatten([for id, role in local.made_roles : [for policy in role.policies : "${id}/${policy}"]]) : pair => split("/", pair) }
}

resource "aws_iam_policy" "of" {
  for_each = { for id in distinct(values(local.attachments)[*][1]) : id => local.policies[id] }

  name_prefix = "dynalimit-${each.key}-"
  policy      = jsonencode({ Version = "2012-10-17", Statement = each.value })
  tags        = var.tags
}

resource "aws_iam_role" "of" {
  for_each = local.made_roles

  name_prefix          = "dynalimit-${each.key}-"
  description          = each.value.about
  permissions_boundary = var.permissions_boundary_arn == "" ? null : var.permissions_boundary_arn
  tags                 = var.tags
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect = "Allow"
      Action = "sts:AssumeRole"
      Principal = each.value.service != "" ? { Service = each.value.service } : {
        AWS = var.trusted_principal_arn != "" ? var.trusted_principal_arn : "arn:${local.partition}:iam::${local.account}:root"
      }
    }]
  })

  lifecycle {
    precondition {
      condition     = !var.keeper || var.budgets
      error_message = "keeper is about the tables of budgets: set budgets."
    }
  }
}

resource "aws_iam_role_policy_attachment" "of" {
  for_each = local.attachments

  role       = aws_iam_role.of[each.value[0]].name
  policy_arn = aws_iam_policy.of[each.value[1]].arn
}

# The functions: the aggregator adds the stream of the limits to usage, and closes its hours; the
# archive keeps changes and usage that expire.
locals {
  all_functions = {
    aggregator = {
      made = var.aggregator, about = "Adds the stream of the limits to usage (dynalimit)", may = concat([local.list_streams], local.delivers)
      # As many as Lambda sends at once, 6 MB: the more records of a bucket, the fewer writes.
      batch = 10000, window = var.aggregator_batching_window
      # Records of buckets alone: those of snapshots would have the function feed itself.
      pattern = "{\"dynamodb\":{\"Keys\":{\"SK\":{\"S\":[{\"prefix\":\"#BUCKET#\"}]}}}}"
      environment = {
        DYNALIMIT_TABLE            = var.limits_table_name
        DYNALIMIT_RETENTION_DAYS   = tostring(var.usage_retention_days)
        DYNALIMIT_ALERT_SECRET_ARN = var.alert_secret_arn
      }
    }
    archive = {
      made = var.archive, about = "Keeps what expires of the limits in S3 (dynalimit)", may = local.archives
      # As many, and as long, as Lambda gives: the more, the fewer files.
      batch = 10000, window = 300
      # What DynamoDB deleted by its time to live, and is archived.
      pattern = "{\"eventName\":[\"REMOVE\"],\"userIdentity\":{\"type\":[\"Service\"],\"principalId\":[\"dynamodb.amazonaws.com\"]},\"dynamodb\":{\"Keys\":{\"SK\":{\"S\":[{\"prefix\":\"#AUDIT#\"},{\"prefix\":\"#USAGE\"},{\"prefix\":\"#CHILDREN_\"}]}}}}"
      environment = {
        DYNALIMIT_TABLE           = var.limits_table_name
        DYNALIMIT_ARCHIVE_BUCKET  = var.archive_bucket
        DYNALIMIT_ARCHIVE_PREFIX  = var.archive_prefix
        DYNALIMIT_ARCHIVE_KMS_KEY = var.archive_kms_key_arn
      }
    }
  }
  functions = { for id, f in local.all_functions : id => f if f.made }
  schedules = { for id, f in local.functions : id => f if id == "aggregator" }
}

resource "aws_cloudwatch_log_group" "of" {
  for_each = local.functions

  name_prefix       = "/aws/lambda/dynalimit-${each.key}-"
  retention_in_days = 30
  tags              = var.tags
}

# Says which records were given up.
resource "aws_sqs_queue" "of" {
  for_each = local.functions

  name_prefix               = "dynalimit-${each.key}-"
  message_retention_seconds = 1209600
  sqs_managed_sse_enabled   = true
  tags                      = var.tags
}

resource "aws_iam_role_policy" "of" {
  for_each = local.functions

  name_prefix = "runs-"
  role        = aws_iam_role.of[each.key].id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        {
          Sid      = "WriteLog"
          Effect   = "Allow"
          Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
          Resource = "${aws_cloudwatch_log_group.of[each.key].arn}:*"
        },
        { Sid = "TellGivenUp", Effect = "Allow", Action = "sqs:SendMessage", Resource = aws_sqs_queue.of[each.key].arn },
      ],
      each.value.may,
    )
  })
}

resource "aws_lambda_function" "of" {
  for_each = local.functions

  function_name = "${var.limits_table_name}-${each.key}"
  description   = each.value.about
  runtime       = "provided.al2023"
  architectures = ["arm64"]
  handler       = "bootstrap"
  memory_size   = 512
  timeout       = 900
  s3_bucket     = var.aggregator_code_bucket
  s3_key        = var.aggregator_code_key
  role          = aws_iam_role.of[each.key].arn
  tags          = var.tags

  logging_config {
    log_format = "Text"
    log_group  = aws_cloudwatch_log_group.of[each.key].name
  }
  environment {
    variables = each.value.environment
  }
  lifecycle {
    precondition {
      condition     = var.aggregator_code_bucket != "" && var.aggregator_code_key != ""
      error_message = "aggregator_code_bucket and aggregator_code_key say where the zip of the functions is: set both."
    }
    precondition {
      condition     = var.tables || var.limits_stream_arn != ""
      error_message = "limits_stream_arn names the stream of a table that is there already: set it."
    }
    precondition {
      condition     = !var.archive || var.archive_bucket != ""
      error_message = "archive_bucket keeps what expires: set it."
    }
  }
}

resource "aws_lambda_event_source_mapping" "of" {
  for_each = local.functions

  event_source_arn                   = local.limits_stream
  function_name                      = aws_lambda_function.of[each.key].arn
  starting_position                  = "TRIM_HORIZON"
  batch_size                         = each.value.batch
  maximum_batching_window_in_seconds = each.value.window
  # A batch comes again from its first failure on; one that is too much comes in halves.
  function_response_types        = ["ReportBatchItemFailures"]
  bisect_batch_on_function_error = true
  # Nothing is given up but by its age, half an hour before the stream drops it: then the queue
  # says where it is, while it can still be read.
  maximum_retry_attempts        = -1
  maximum_record_age_in_seconds = 84600
  # The records of an item come one batch after the other. With more than 1, a batch that fails
  # comes again beside later ones.
  parallelization_factor = 1
  depends_on             = [aws_iam_role_policy.of, aws_iam_role_policy_attachment.of]

  destination_config {
    on_failure {
      destination_arn = aws_sqs_queue.of[each.key].arn
    }
  }
  filter_criteria {
    filter {
      pattern = each.value.pattern
    }
  }
}

# Closes the hours that are due.
resource "aws_cloudwatch_event_rule" "of" {
  for_each = local.schedules

  name_prefix         = "dynalimit-${each.key}-"
  description         = "Closes hours of usage"
  schedule_expression = "rate(5 minutes)"
  tags                = var.tags
}

resource "aws_cloudwatch_event_target" "of" {
  for_each = local.schedules

  rule = aws_cloudwatch_event_rule.of[each.key].name
  arn  = aws_lambda_function.of[each.key].arn
}

resource "aws_lambda_permission" "of" {
  for_each = local.schedules

  action        = "lambda:InvokeFunction"
  function_name = aws_lambda_function.of[each.key].function_name
  principal     = "events.amazonaws.com"
  source_arn    = aws_cloudwatch_event_rule.of[each.key].arn
}

# Alarms, each on the sum of its metrics. A metric of DynamoDB's own is missing where there is
# nothing to count, and an alarm on it would then never be over: the sum fills what is missing.
locals {
  limits_dimensions = concat([{ TableName = var.limits_table_name }], [
    for index in ["GSI1", "GSI2", "GSI3"] : { TableName = var.limits_table_name, GlobalSecondaryIndexName = index }
  ])
  budget_dimensions = [for table in [var.budget_control_table_name, var.budget_usage_table_name] : { TableName = table }]
  operations        = ["BatchGetItem", "GetItem", "Query", "TransactWriteItems", "UpdateItem"]

  all_sums = {
    LimitsReadThrottles = {
      made  = true, namespace = "AWS/DynamoDB", threshold = 1, periods = 3
      about = "Reads are throttled: a partition is read too often. Raise the time that configuration is kept in memory, or the table's maximum."
      of    = [for d in local.limits_dimensions : { metric = "ReadThrottleEvents", dimensions = d }]
    }
    LimitsWriteThrottles = {
      made  = true, namespace = "AWS/DynamoDB", threshold = 1, periods = 3
      about = "Writes are throttled: an entity's bucket is written too often. See Health.Hottest, and prefetch for the limits that it has."
      of    = [for d in local.limits_dimensions : { metric = "WriteThrottleEvents", dimensions = d }]
    }
    LimitsSystemErrors = {
      made  = true, namespace = "AWS/DynamoDB", threshold = 5, periods = 3
      about = "DynamoDB fails. Calls go on by the policy for outages. See the region's health."
      of    = [for o in local.operations : { metric = "SystemErrors", dimensions = { TableName = var.limits_table_name, Operation = o } }]
    }
    BudgetThrottles = {
      made  = var.budgets, namespace = "AWS/DynamoDB", threshold = 1, periods = 3
      about = "Requests about budgets are throttled. See the table's maximum, and the shards of the organisation."
      of    = flatten([for d in local.budget_dimensions : [for kind in ["Read", "Write"] : { metric = "${kind}ThrottleEvents", dimensions = d }]])
    }
    BudgetSystemErrors = {
      made  = var.budgets, namespace = "AWS/DynamoDB", threshold = 5, periods = 3
      about = "DynamoDB fails. Budgets go on by their policy for outages. See the region's health."
      of    = flatten([for d in local.budget_dimensions : [for o in local.operations : { metric = "SystemErrors", dimensions = merge(d, { Operation = o }) }]])
    }
    UsageMissing = {
      made  = var.aggregator, namespace = "dynalimit", threshold = 1, periods = 1
      about = "Records cannot be read, or never came: usage is missing. See the function's log, and repair it."
      of    = [for name in ["RecordsSkipped", "UsageGaps"] : { metric = name, dimensions = { TableName = var.limits_table_name } }]
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "sum" {
  for_each = { for id, a in local.all_sums : id => a if var.alarms && a.made }

  alarm_name          = "${var.limits_table_name}-${each.key}"
  alarm_description   = each.value.about
  alarm_actions       = local.alarm_actions
  ok_actions          = local.alarm_actions
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = each.value.threshold
  evaluation_periods  = each.value.periods
  treat_missing_data  = "notBreaching"
  tags                = var.tags

  metric_query {
    id          = "total"
    expression  = "SUM(FILL(METRICS(), 0))"
    label       = each.key
    return_data = true
  }
  dynamic "metric_query" {
    for_each = each.value.of
    content {
      id = "m${metric_query.key + 1}"
      metric {
        namespace   = each.value.namespace
        metric_name = metric_query.value.metric
        stat        = "Sum"
        period      = 60
        dimensions  = metric_query.value.dimensions
      }
    }
  }
}

# Alarms on one metric. The age of the stream is published every minute while all is well, so that
# silence is told too, once there was something. The aggregator waits up to 5 minutes for records
# on purpose.
locals {
  alarm_actions = [for arn in [var.alarm_topic_arn] : arn if arn != ""]
  of_function   = { for id in keys(local.all_functions) : id => { FunctionName = try(aws_lambda_function.of[id].function_name, "") } }
  of_queue      = { for id in keys(local.all_functions) : id => { QueueName = try(aws_sqs_queue.of[id].name, "") } }
  of_limits     = { TableName = var.limits_table_name }

  all_alarms = {
    DegradedLeases = {
      made  = true, namespace = "dynalimit", metric = "DegradedLeases", statistic = "Sum", threshold = 1, periods = 1, missing = "notBreaching", dimensions = local.of_limits
      about = "Calls were admitted without their buckets, because DynamoDB did not answer. See the region's health, and the policy for outages."
    }
    StreamAge = {
      made  = !var.aggregator, namespace = "dynalimit", metric = "StreamAgeSeconds", statistic = "Maximum", threshold = 300, periods = 3, missing = "missing", dimensions = local.of_limits
      about = "Whoever reads the table's stream is more than 5 minutes behind, or says nothing any more. See whether it runs and fails."
    }
    AggregatorAge = {
      made  = var.aggregator, namespace = "AWS/Lambda", metric = "IteratorAge", statistic = "Maximum", threshold = 900000, periods = 3, missing = "notBreaching", dimensions = local.of_function.aggregator
      about = "The function that adds up usage is far behind. See whether it fails."
    }
    AggregatorErrors = {
      made  = var.aggregator, namespace = "AWS/Lambda", metric = "Errors", statistic = "Sum", threshold = 1, periods = 1, missing = "notBreaching", dimensions = local.of_function.aggregator
      about = "The function that adds up usage fails: its batch comes again, or hours stay open. See its log."
    }
    AggregatorDeadLetters = {
      made  = var.aggregator, namespace = "AWS/SQS", metric = "ApproximateNumberOfMessagesVisible", statistic = "Maximum", threshold = 1, periods = 1, missing = "notBreaching", dimensions = local.of_queue.aggregator
      about = "Records were given up before they were added to usage. The message says which: they can be read for half an hour more."
    }
    ArchiveAge = {
      made  = var.archive, namespace = "AWS/Lambda", metric = "IteratorAge", statistic = "Maximum", threshold = 3600000, periods = 3, missing = "notBreaching", dimensions = local.of_function.archive
      about = "What expires is more than an hour late in the archive. See the function's log: after a day it is lost."
    }
    ArchiveErrors = {
      made  = var.archive, namespace = "AWS/Lambda", metric = "Errors", statistic = "Sum", threshold = 1, periods = 1, missing = "notBreaching", dimensions = local.of_function.archive
      about = "The function that archives fails: its batch comes again. See its log."
    }
    ArchiveDeadLetters = {
      made  = var.archive, namespace = "AWS/SQS", metric = "ApproximateNumberOfMessagesVisible", statistic = "Maximum", threshold = 1, periods = 1, missing = "notBreaching", dimensions = local.of_queue.archive
      about = "Records were given up before they were archived. The message says which: they can be read for half an hour more."
    }
    ArchiveMissing = {
      made  = var.archive, namespace = "dynalimit", metric = "ArchiveSkipped", statistic = "Sum", threshold = 1, periods = 1, missing = "notBreaching", dimensions = local.of_limits
      about = "Records cannot be read: what expired with them is not in the archive. See the function's log."
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "of" {
  for_each = { for id, a in local.all_alarms : id => a if var.alarms && a.made }

  alarm_name                = "${var.limits_table_name}-${each.key}"
  alarm_description         = each.value.about
  alarm_actions             = local.alarm_actions
  ok_actions                = local.alarm_actions
  insufficient_data_actions = each.value.missing == "missing" ? local.alarm_actions : []
  namespace                 = each.value.namespace
  metric_name               = each.value.metric
  dimensions                = each.value.dimensions
  statistic                 = each.value.statistic
  period                    = 60
  comparison_operator       = "GreaterThanOrEqualToThreshold"
  threshold                 = each.value.threshold
  evaluation_periods        = each.value.periods
  treat_missing_data        = each.value.missing
  tags                      = var.tags
}

output "limits_table_arn" {
  value = local.limits_arn
}

output "limits_stream_arn" {
  value = local.limits_stream
}


output "role_arns" {
  description = "The roles: acquire, read, admin, tail, keeper, aggregator, archive"
  value       = { for id, role in aws_iam_role.of : id => role.arn }
}

output "policy_arns" {
  description = "The policies, to attach to roles of yours: acquire, read, admin (beside read), usage, tail (beside usage), keeper"
  value       = { for id, policy in aws_iam_policy.of : id => policy.arn }
}
