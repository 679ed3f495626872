<#
.SYNOPSIS
Prepare for the scheduled events of this VM, approve them, and recover when they are over.

.DESCRIPTION
Much the same job as prepare-and-recover on Linux: for every event that is announced and has not started, Hook runs with
the argument "prepare"; when the last event is over, Hook runs with "recover". Every field of the event is in its environment: EVENT_ID,
EVENT_TYPE, EVENT_SOURCE, EVENT_STATE, EVENT_RESOURCES, EVENT_NOT_BEFORE, EVENT_DURATION_SECONDS and so on. A Hook that
fails is run again after a restart, so it must be safe to run twice.

Differences to the runner on Linux: Hook prepares when an event is announced, which may be a week ahead (no --lead). A
Hook that fails ends this script, and is run again when something starts it. Hook has no time limit, and other
events wait until it has ended. An approval that is refused is not tried again. There is no --approve=all.

Needs azure-scheduled-events-exporter.exe and access to its journal, and something that starts this script again when it
ends, such as a scheduled task with a trigger that is repeated every minute.

.PARAMETER Hook
A program or script that takes one argument, "prepare" or "recover", and ends with status 0 if it succeeded.

.PARAMETER Approve
none (the default), own: approve events of this VM alone once Hook succeeded, or any: also events of several VMs, which
need no preparation there. Preempt and Terminate are never approved, because they delete the VM.

.PARAMETER Types
Only events of these types.
#>
param(
    [Parameter(Mandatory = $true)][string]$Hook,
    [ValidateSet('none', 'own', 'any')][string]$Approve = 'none',
    [string[]]$Types = @('Freeze', 'Reboot', 'Redeploy', 'Preempt', 'Terminate'),
    [string]$State = "$env:ProgramData\azure-scheduled-events-exporter\prepare-and-recover.json",
    [string]$Exporter = "$env:ProgramFiles\azure-scheduled-events-exporter\Scripts\azure-scheduled-events-exporter.exe"
)

$ErrorActionPreference = 'Stop'
$State = $ExecutionContext.SessionState.Path.GetUnresolvedProviderPathFromPSPath($State)
$deletions = @('Preempt', 'Terminate')

function Save-Progress($progress) {
    $new = "$State.new"
    $bytes = [Text.Encoding]::UTF8.GetBytes(($progress | ConvertTo-Json))
    $file = [IO.File]::Create($new)
    try {
        $file.Write($bytes, 0, $bytes.Length)
        $file.Flush($true)  # to disk, so that a power cut leaves the old file or the new one
    }
    finally { $file.Dispose() }
    Move-Item -Path $new -Destination $State -Force
}

function Invoke-Hook($what, $record) {
    foreach ($field in $record.PSObject.Properties) {
        $name = $field.Name.ToUpperInvariant()
        if (-not $name.StartsWith('EVENT_')) { $name = "EVENT_$name" }
        $value = if ($field.Value -is [array]) { $field.Value -join ',' }
        elseif ($field.Value -is [datetime]) {  # what PowerShell 6 and newer make of a time in JSON
            $field.Value.ToUniversalTime().ToString('yyyy-MM-ddTHH:mm:ssZ', [Globalization.CultureInfo]::InvariantCulture)
        }
        else { [string]$field.Value }
        [Environment]::SetEnvironmentVariable($name, $value, 'Process')
    }
    Write-Output "$what for $($record.event_type) $($record.event_id)"
    $global:LASTEXITCODE = 0
    & $Hook $what
    if ($LASTEXITCODE -ne 0) {
        throw "$Hook $what failed with $LASTEXITCODE; it is tried again after a restart"
    }
}

function Test-Approval($record) {
    if ($Approve -eq 'none') { return $false }
    if ($deletions -contains $record.event_type) { return $false }
    # An event may return without this VM, which was in its Resources before.
    if ($record.scope -ne 'self') { return $false }
    return ($Approve -eq 'any') -or (@($record.resources).Count -eq 1)
}

# The events of the journal by their id, each as it is now; none while there is no journal.
function Get-Life {
    $lives = @{}
    $text = & $Exporter history --json | Out-String
    if ($LASTEXITCODE -eq 0) {
        foreach ($life in ($text | ConvertFrom-Json)) { $lives[$life.event_id] = $life }
    }
    return $lives
}

# The event as it is now; nothing if it has started, or is over. The line may be old: the VM may have been rebooted since.
function Get-Ahead($record) {
    $now = $record.PSObject.Copy()
    $life = if ($record.cursor) { (Get-Life)[$record.event_id] } else { $null }
    if ($life) {
        foreach ($field in $life.PSObject.Properties) {
            # The command may not know the name of this VM, and so the scope.
            $isUnknown = ($field.Name -eq 'scope') -and ($field.Value -eq 'unknown')
            if ($now.PSObject.Properties[$field.Name] -and (-not $isUnknown)) { $now.($field.Name) = $field.Value }
        }
    }
    if (($now.state -ne 'Started') -and (-not $now.outcome)) { return $now }
}

function Complete-Event($record) {
    if ($progress.open.Count -eq 1) { Invoke-Hook 'recover' $record }
    $progress.open = @($progress.open | Where-Object { $_ -ne $record.event_id })
}

$progress = @{ cursor = '0'; open = @() }
if (Test-Path -Path $State) {
    $saved = try { Get-Content -Path $State -Raw -Encoding UTF8 | ConvertFrom-Json } catch { $null }
    if ($saved -and $saved.PSObject.Properties['open']) {
        # An earlier version kept the number only.
        $cursor = if ($saved.cursor) { $saved.cursor } else { [string]$saved.seq }
        $progress = @{ cursor = $cursor; open = @($saved.open) }
    }
    else {
        Write-Output "$State cannot be read, so recover is run once"
        $progress.open = @('unknown')  # an event that is not in the journal and not in IMDS
    }
}

# Recover from events that are over although no line may say so, for example because the journal was lost.
$lives = Get-Life
$goingOn = @($lives.Values | Where-Object { -not $_.outcome } | ForEach-Object { $_.event_id })
if (@($progress.open | Where-Object { $goingOn -notcontains $_ }).Count) {
    $text = & $Exporter events --json | Out-String
    if ($LASTEXITCODE -ne 0) { throw 'IMDS cannot be asked; it is tried again after a restart' }
    $goingOn += @(($text | ConvertFrom-Json).events | ForEach-Object { $_.event_id })
    foreach ($id in @($progress.open | Where-Object { $goingOn -notcontains $_ })) {
        $life = $lives[$id]
        if (-not $life) { $life = [PSCustomObject]@{ event_id = $id; event_type = 'event' } }
        Complete-Event $life
    }
    Save-Progress $progress
}

$start = New-Object System.Diagnostics.ProcessStartInfo
$start.FileName = $Exporter
$start.Arguments = "events --follow --mine --since $($progress.cursor)"
$start.UseShellExecute = $false
$start.RedirectStandardOutput = $true
$follower = [System.Diagnostics.Process]::Start($start)
try {
    while ($null -ne ($line = $follower.StandardOutput.ReadLine())) {
        $record = $line | ConvertFrom-Json
        $id = $record.event_id
        $announced = @('detected', 'returned') -contains $record.transition
        $now = if (($Types -contains $record.event_type) -and $announced) { Get-Ahead $record } else { $null }
        if ($now) {
            if ($progress.open -notcontains $id) {
                $progress.open += $id
                Save-Progress $progress
            }
            Invoke-Hook 'prepare' $now
            $now = Get-Ahead $record  # Resources may have changed meanwhile, or it has started
            if ($now -and (Test-Approval $now)) { & $Exporter approve $id --yes }
        }
        elseif ($record.outcome -and $progress.open -contains $id) { Complete-Event $record }
        if ($record.cursor) { $progress.cursor = $record.cursor }
        Save-Progress $progress
    }
}
finally {
    if (-not $follower.HasExited) { $follower.Kill() }
}
throw 'azure-scheduled-events-exporter events --follow has ended'
