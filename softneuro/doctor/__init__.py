"""What this machine can do, and whether softneuro works on it."""

from softneuro.codegen.jit import cache_folder
from softneuro.doctor.cache import clean_cache
from softneuro.doctor.diagnosis import Diagnosis, diagnose
from softneuro.doctor.findings import Finding, findings

__all__ = ["Diagnosis", "Finding", "cache_folder", "clean_cache", "diagnose", "findings"]
