"""A private certificate: does the condition of theorem 3 of docs/theory.md hold at a fit?"""

from stillspace.methods.certificate.method import CertificateMethod
from stillspace.methods.certificate.statement import PrivateCertificate, Statement

__all__ = ["CertificateMethod", "PrivateCertificate", "Statement"]
