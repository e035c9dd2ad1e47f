# Limits of LLM calls in DynamoDB (dynalimit): alarms, aggregator.
terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.32"
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

variable "alarm_topic_arn" {
  description = "ARN of the SNS topic that alarms are sent to; null for none"
  type        = string
  default     = null
}

variable "aggregator_code_bucket" {
  description = "S3 bucket, in the region, with the function's zip, which make lambda builds"
  type        = string
}

variable "aggregator_code_key" {
  description = "Key of the zip in the bucket; another one deploys another version"
  type        = string
}

variable "aggregator_batching_window" {
  description = "How many seconds the function waits for more records, 0 to 300: more is cheaper, and usage is later"
  type        = number
  default     = 60
}

variable "usage_retention_days" {
  description = "How many days usage is kept by the hour; 0 for ever"
  type        = number
  default     = 90
}

variable "limits_stream_arn" {
  description = "ARN of the stream of the limits' table"
  type        = string
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

# Adds the stream of the limits to usage.
resource "aws_iam_policy" "aggregator" {
  name_prefix = "dynalimit-aggregator-"
  description = "Adds the stream of the limits to usage"
  tags        = var.tags
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        # What changed.
        {
          Sid    = "ReadStream"
          Effect = "Allow"
          Action = [
            "dynamodb:DescribeStream",
            "dynamodb:GetRecords",
            "dynamodb:GetShardIterator",
            "dynamodb:ListStreams",
          ]
          Resource = ["${local.limits_table_arn}/stream/*"]
        },
        # What is to be summed, and where entities stand.
        {
          Sid      = "ReadUsage"
          Effect   = "Allow"
          Action   = ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"]
          Resource = [local.limits_table_arn, "${local.limits_table_arn}/index/*"]
        },
        # Snapshots and sums: the attributes tell them from limits and buckets.
        {
          Sid      = "WriteUsage"
          Effect   = "Allow"
          Action   = ["dynamodb:PutItem", "dynamodb:UpdateItem"]
          Resource = [local.limits_table_arn]
          Condition = {
            "ForAllValues:StringLike" = {
              "dynamodb:LeadingKeys" = [
                "ENTITY#*",
                "PLAN#*",
                "RESOURCE#*",
                "SYSTEM#",
                "*/ENTITY#*",
                "*/PLAN#*",
                "*/RESOURCE#*",
                "*/SYSTEM#",
              ]
              "dynamodb:Attributes" = [
                "PK",
                "SK",
                "entity_id",
                "resource",
                "window",
                "window_start",
                "total_events",
                "seq",
                "GSI3PK",
                "GSI3SK",
                "ttl",
                "u_*",
                "parent_id",
                "plan",
                "closed",
                "summed",
                "entities",
                "final",
                "made_at",
                "closed_to",
                "final_to",
                "closed_from",
                "closing",
                "finishing",
                "counted",
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

resource "aws_iam_role" "aggregator" {
  name_prefix          = "dynalimit-aggregator-"
  description          = "Adds the stream of the limits to usage"
  permissions_boundary = var.permissions_boundary_arn
  tags                 = var.tags
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Allow"
        Action    = "sts:AssumeRole"
        Principal = { Service = "lambda.amazonaws.com" }
      },
    ]
  })
}

resource "aws_iam_role_policy_attachment" "aggregator" {
  role       = aws_iam_role.aggregator.name
  policy_arn = aws_iam_policy.aggregator.arn
}

# What the function says.
resource "aws_cloudwatch_log_group" "aggregator" {
  name_prefix       = "/aws/lambda/dynalimit-aggregator-"
  retention_in_days = 30
  tags              = var.tags
}

# Says which records were given up.
resource "aws_sqs_queue" "aggregator" {
  name_prefix               = "dynalimit-aggregator-"
  message_retention_seconds = 1209600
  sqs_managed_sse_enabled   = true
  tags                      = var.tags
}

resource "aws_iam_role_policy" "aggregator" {
  name_prefix = "runs-"
  role        = aws_iam_role.aggregator.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid      = "WriteLog"
        Effect   = "Allow"
        Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
        Resource = "${aws_cloudwatch_log_group.aggregator.arn}:*"
      },
      {
        Sid      = "TellGivenUp"
        Effect   = "Allow"
        Action   = "sqs:SendMessage"
        Resource = aws_sqs_queue.aggregator.arn
      },
    ]
  })
}

# Adds the stream of the limits to usage, and closes its hours.
resource "aws_lambda_function" "aggregator" {
  function_name = "${var.limits_table_name}-aggregator"
  description   = "Adds the stream of the limits to usage (dynalimit)"
  runtime       = "provided.al2023"
  architectures = ["arm64"]
  handler       = "bootstrap"
  memory_size   = 512
  timeout       = 300
  s3_bucket     = var.aggregator_code_bucket
  s3_key        = var.aggregator_code_key
  role          = aws_iam_role.aggregator.arn

  logging_config {
    log_format = "Text"
    log_group  = aws_cloudwatch_log_group.aggregator.name
  }

  environment {
    variables = {
      DYNALIMIT_TABLE          = var.limits_table_name
      DYNALIMIT_RETENTION_DAYS = var.usage_retention_days
    }
  }
  tags = var.tags
}

resource "aws_lambda_event_source_mapping" "aggregator" {
  event_source_arn                   = var.limits_stream_arn
  function_name                      = aws_lambda_function.aggregator.arn
  starting_position                  = "TRIM_HORIZON"
  batch_size                         = 1000
  maximum_batching_window_in_seconds = var.aggregator_batching_window
  # A batch comes again from its first failure on.
  function_response_types = ["ReportBatchItemFailures"]
  # A batch that is too much for the function comes in halves.
  bisect_batch_on_function_error = true
  # Nothing is given up but by its age, half an hour before the stream drops it.
  maximum_retry_attempts        = -1
  maximum_record_age_in_seconds = 84600
  # The records of an item come one batch after the other.
  parallelization_factor = 1
  depends_on             = [aws_iam_role_policy.aggregator, aws_iam_role_policy_attachment.aggregator]

  destination_config {
    on_failure {
      destination_arn = aws_sqs_queue.aggregator.arn
    }
  }

  # Records of buckets alone.
  filter_criteria {
    filter {
      pattern = "{\"dynamodb\":{\"Keys\":{\"SK\":{\"S\":[{\"prefix\":\"#BUCKET#\"}]}}}}"
    }
  }
}

# Closes the hours that are due.
resource "aws_cloudwatch_event_rule" "aggregator" {
  name_prefix         = "dynalimit-aggregator-"
  description         = "Closes hours of usage"
  schedule_expression = "rate(5 minutes)"
  tags                = var.tags
}

resource "aws_cloudwatch_event_target" "aggregator" {
  rule = aws_cloudwatch_event_rule.aggregator.name
  arn  = aws_lambda_function.aggregator.arn
}

resource "aws_lambda_permission" "aggregator" {
  action        = "lambda:InvokeFunction"
  function_name = aws_lambda_function.aggregator.function_name
  principal     = "events.amazonaws.com"
  source_arn    = aws_cloudwatch_event_rule.aggregator.arn
}

# Reads are throttled: a partition is read too often. Raise the time that configuration is kept in memory, or the table's maximum.
resource "aws_cloudwatch_metric_alarm" "limits_read_throttles" {
  alarm_name          = "${var.limits_table_name}-limits-read-throttles"
  alarm_description   = "Reads are throttled: a partition is read too often. Raise the time that configuration is kept in memory, or the table's maximum."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 1
  evaluation_periods  = 3
  treat_missing_data  = "notBreaching"
  tags                = var.tags

  metric_query {
    id          = "total"
    expression  = "SUM(FILL(METRICS(), 0))"
    label       = "LimitsReadThrottles"
    return_data = true
  }

  metric_query {
    id = "m1"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "ReadThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = var.limits_table_name
      }
    }
  }

  metric_query {
    id = "m2"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "ReadThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName                = var.limits_table_name
        GlobalSecondaryIndexName = "GSI1"
      }
    }
  }

  metric_query {
    id = "m3"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "ReadThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName                = var.limits_table_name
        GlobalSecondaryIndexName = "GSI2"
      }
    }
  }

  metric_query {
    id = "m4"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "ReadThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName                = var.limits_table_name
        GlobalSecondaryIndexName = "GSI3"
      }
    }
  }
}

# Writes are throttled: an entity's bucket is written too often. See Health.Hottest, and prefetch for the limits that it has.
resource "aws_cloudwatch_metric_alarm" "limits_write_throttles" {
  alarm_name          = "${var.limits_table_name}-limits-write-throttles"
  alarm_description   = "Writes are throttled: an entity's bucket is written too often. See Health.Hottest, and prefetch for the limits that it has."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 1
  evaluation_periods  = 3
  treat_missing_data  = "notBreaching"
  tags                = var.tags

  metric_query {
    id          = "total"
    expression  = "SUM(FILL(METRICS(), 0))"
    label       = "LimitsWriteThrottles"
    return_data = true
  }

  metric_query {
    id = "m1"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "WriteThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = var.limits_table_name
      }
    }
  }

  metric_query {
    id = "m2"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "WriteThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName                = var.limits_table_name
        GlobalSecondaryIndexName = "GSI1"
      }
    }
  }

  metric_query {
    id = "m3"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "WriteThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName                = var.limits_table_name
        GlobalSecondaryIndexName = "GSI2"
      }
    }
  }

  metric_query {
    id = "m4"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "WriteThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName                = var.limits_table_name
        GlobalSecondaryIndexName = "GSI3"
      }
    }
  }
}

# DynamoDB fails. Calls go on by the policy for outages. See the region's health.
resource "aws_cloudwatch_metric_alarm" "limits_system_errors" {
  alarm_name          = "${var.limits_table_name}-limits-system-errors"
  alarm_description   = "DynamoDB fails. Calls go on by the policy for outages. See the region's health."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 5
  evaluation_periods  = 3
  treat_missing_data  = "notBreaching"
  tags                = var.tags

  metric_query {
    id          = "total"
    expression  = "SUM(FILL(METRICS(), 0))"
    label       = "LimitsSystemErrors"
    return_data = true
  }

  metric_query {
    id = "m1"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "SystemErrors"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = var.limits_table_name
        Operation = "BatchGetItem"
      }
    }
  }

  metric_query {
    id = "m2"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "SystemErrors"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = var.limits_table_name
        Operation = "GetItem"
      }
    }
  }

  metric_query {
    id = "m3"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "SystemErrors"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = var.limits_table_name
        Operation = "Query"
      }
    }
  }

  metric_query {
    id = "m4"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "SystemErrors"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = var.limits_table_name
        Operation = "TransactWriteItems"
      }
    }
  }

  metric_query {
    id = "m5"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "SystemErrors"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = var.limits_table_name
        Operation = "UpdateItem"
      }
    }
  }
}

# Calls were admitted without their buckets, because DynamoDB did not answer. See the region's health, and the policy for outages.
resource "aws_cloudwatch_metric_alarm" "degraded_leases" {
  alarm_name          = "${var.limits_table_name}-degraded-leases"
  alarm_description   = "Calls were admitted without their buckets, because DynamoDB did not answer. See the region's health, and the policy for outages."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 1
  evaluation_periods  = 1
  treat_missing_data  = "notBreaching"
  tags                = var.tags
  namespace           = "dynalimit"
  metric_name         = "DegradedLeases"
  statistic           = "Sum"
  period              = 60
  dimensions = {
    TableName = var.limits_table_name
  }
}

# The function that reads the table's stream is far behind. See whether it fails.
resource "aws_cloudwatch_metric_alarm" "stream_function_age" {
  alarm_name          = "${var.limits_table_name}-stream-function-age"
  alarm_description   = "The function that reads the table's stream is far behind. See whether it fails."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 900000
  evaluation_periods  = 3
  treat_missing_data  = "notBreaching"
  tags                = var.tags
  namespace           = "AWS/Lambda"
  metric_name         = "IteratorAge"
  statistic           = "Maximum"
  period              = 60
  dimensions = {
    FunctionName = aws_lambda_function.aggregator.function_name
  }
}

# The function that adds up usage fails: its batch comes again, or hours stay open. See its log.
resource "aws_cloudwatch_metric_alarm" "aggregator_errors" {
  alarm_name          = "${var.limits_table_name}-aggregator-errors"
  alarm_description   = "The function that adds up usage fails: its batch comes again, or hours stay open. See its log."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 1
  evaluation_periods  = 1
  treat_missing_data  = "notBreaching"
  tags                = var.tags
  namespace           = "AWS/Lambda"
  metric_name         = "Errors"
  statistic           = "Sum"
  period              = 60
  dimensions = {
    FunctionName = aws_lambda_function.aggregator.function_name
  }
}

# Records were given up before they were added to usage. The message says which: they can be read for half an hour more.
resource "aws_cloudwatch_metric_alarm" "aggregator_dead_letters" {
  alarm_name          = "${var.limits_table_name}-aggregator-dead-letters"
  alarm_description   = "Records were given up before they were added to usage. The message says which: they can be read for half an hour more."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 1
  evaluation_periods  = 1
  treat_missing_data  = "notBreaching"
  tags                = var.tags
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  statistic           = "Maximum"
  period              = 60
  dimensions = {
    QueueName = aws_sqs_queue.aggregator.name
  }
}

# Records were skipped because they cannot be read, or never came: usage is missing. See the function's log, and repair it.
resource "aws_cloudwatch_metric_alarm" "usage_missing" {
  alarm_name          = "${var.limits_table_name}-usage-missing"
  alarm_description   = "Records were skipped because they cannot be read, or never came: usage is missing. See the function's log, and repair it."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 1
  evaluation_periods  = 1
  treat_missing_data  = "notBreaching"
  tags                = var.tags

  metric_query {
    id          = "total"
    expression  = "SUM(FILL(METRICS(), 0))"
    label       = "UsageMissing"
    return_data = true
  }

  metric_query {
    id = "m1"

    metric {
      namespace   = "dynalimit"
      metric_name = "RecordsSkipped"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = var.limits_table_name
      }
    }
  }

  metric_query {
    id = "m2"

    metric {
      namespace   = "dynalimit"
      metric_name = "UsageGaps"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = var.limits_table_name
      }
    }
  }
}

output "aggregator_role_arn" {
  description = "Adds the stream of the limits to usage"
  value       = aws_iam_role.aggregator.arn
}

output "aggregator_policy_arn" {
  description = "The policy, to attach to a role of yours"
  value       = aws_iam_policy.aggregator.arn
}
