"""The controller: the one broker that elects leaders, places replicas and tells every broker of it."""
