"""The share coordinator: the delivery states of share groups (KIP-932), kept in `__share_group_state`."""
