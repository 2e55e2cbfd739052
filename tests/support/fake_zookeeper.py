"""The test kit's model of ZooKeeper, which tests of the controller use too."""

from __future__ import annotations

from odradek.testing.zookeeper import FakeZookeeper as FakeZookeeper
