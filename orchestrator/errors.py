"""Every error a user can meet.

LeverError                  exit 1; message says which thing, what happened, the value, what to do next
├── UsageError              exit 2: bad override, unknown name, bad file
│   ├── ConfigError         a configuration that cannot be run
│   ├── ModelError          GGUF, pack, pair or tokenizer
│   └── UnknownName         no such phone, sweep, pair
├── PhoneError              something between us and one phone; .kind is a FailureKind
│   ├── PhoneUnreachable
│   ├── PhoneUnauthorized
│   ├── CommandFailed       the command ran and said no
│   ├── WrongPhone          another phone answers at a known address
│   ├── PhoneUnsuitable     Android too old, no bundle for its processor, a folder that cannot be written
│   ├── PhoneDiskFull
│   └── ProvisioningFailed  a chunk arrives damaged again and again
├── FetchFailed             the package index has no such package, or cannot be reached
├── RegistryError
│   ├── ClaimLost           another owner took the trial or the phone first
│   └── LeaseLost           our fencing token is stale: drop what we hold
├── TrackingError           MLflow does not take or give what we ask
├── FarmError               supervisor, Ray, ports
└── TrialsFailed            a sweep ended with failed trials (exit 1)
"""

from __future__ import annotations


class LeverError(Exception):
    """Root of the tree; `remedy` is what to do next."""

    exit_code = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message, self.remedy = message, remedy


class UsageError(LeverError):
    exit_code = 2


class ConfigError(UsageError): ...


class ModelError(UsageError): ...


class UnknownName(UsageError): ...


class PhoneError(LeverError):
    """`kind` names the failure as retry policy knows it (entities.FailureKind values)."""

    kind = "phone_error"


class PhoneUnreachable(PhoneError):
    kind = "unreachable"


class PhoneUnauthorized(PhoneError):
    kind = "unauthorized"


class CommandFailed(PhoneError):
    kind = "command_failed"


class WrongPhone(PhoneError):
    kind = "unreachable"


class PhoneUnsuitable(PhoneError):
    kind = "provisioning"


class PhoneDiskFull(PhoneError):
    kind = "disk_full"


class ProvisioningFailed(PhoneError):
    kind = "provisioning"


class FetchFailed(LeverError): ...


class RegistryError(LeverError): ...


class ClaimLost(RegistryError): ...


class LeaseLost(RegistryError): ...


class TrackingError(LeverError): ...


class FarmError(LeverError): ...


class TrialsFailed(LeverError): ...
