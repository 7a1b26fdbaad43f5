"""The exercise that proves a resume, and fails where one is incomplete.

Small enough that four lives of it take seconds, and with every state that a resume can lose:
``rows`` and ``experiment`` are what is trained, ``life`` one process of it, ``storing`` and
``loading`` its checkpoint in each format, ``comparing`` and ``verdict`` the proof.
"""
