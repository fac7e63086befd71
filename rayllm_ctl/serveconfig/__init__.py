"""Serve configurations, of a user's file (`check`) and of a RayService (`applied`)."""
